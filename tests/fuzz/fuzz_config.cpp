#include <cstdio>
#include <cstdlib>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/config/config_file.h"
#include "fla/ops/kda/kda.h"
#include "tests/fuzz/fuzz.h"

namespace fla_test {

void fuzz_config(std::string_view text) {
  using fla::dispatch::KnownNames;
  static const KnownNames known{
      .ops = {{"kda", {.backends = {"cpu_simd", "flash_kda"}, .tables = {fla::KdaArgs::arguments()}}}}};
  try {
    const fla::dispatch::Configuration read = fla::dispatch::parse_configuration(text, "f");
    check_names(read, known);
  } catch (const fla::ConfigError& error) {
    const std::string_view what = error.what();
    if (what.starts_with("f:") && what.find('\n') == std::string_view::npos) return;
    std::fprintf(stderr, "not one line that begins with its place: %s\n", error.what());
    std::abort();
  }
}

}  // namespace fla_test
