#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fla::dispatch {

/// What a TOML text must not have because the parser cannot be trusted with it.
struct TomlProblem {
  int line = 0;
  std::string what;
};

/// Looks for keys of more than `most_parts` parts (a.b.c has three): every part is a table inside the one
/// before, the parser's tables call themselves as deep when they go, and a long key would end the process.
/// And for characters beyond ASCII outside of quotes and comments, where TOML has none and the parser's
/// behaviour is undefined.
std::optional<TomlProblem> scan_toml(std::string_view text, int most_parts);

}  // namespace fla::dispatch
