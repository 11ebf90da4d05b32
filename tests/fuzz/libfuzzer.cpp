#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz.h"

/// libFuzzer's entry; FLA_FUZZED is the function that it feeds.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fla_test::FLA_FUZZED(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
