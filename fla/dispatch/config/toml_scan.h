#pragma once

#include <optional>
#include <string_view>

namespace fla::dispatch {

/// The line of the first key with more than `most_parts` parts (a.b.c has three) in a TOML text; none: there
/// is no such key. Every part is a table inside the one before, and the parser's tables are destroyed
/// recursively: a long key would overflow the stack.
std::optional<int> line_of_long_key(std::string_view text, int most_parts);

}  // namespace fla::dispatch
