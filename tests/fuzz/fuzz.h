#pragma once

#include <string_view>

/// What the fuzzers feed: libFuzzer's programs where clang is there, and a test that goes through the kept
/// corpus in every build. Each returns when the input was taken or refused in the way that it should be, and
/// ends the process otherwise.
namespace fla_test {

/// Reads a condition, and where it is one for kda, evaluates it for several calls: alone, negated, and as one
/// rule among others.
void fuzz_condition(std::string_view text);

/// Reads a config file and holds it to the names of kda.
void fuzz_config(std::string_view text);

}  // namespace fla_test
