#include <cstdio>
#include <exception>
#include <typeinfo>

#include "fla/core/errors.h"
#include "fla/ops/kda/kda.h"
#include "tests/dispatch/mix.h"

/// A program whose first call of the library is a dispatched one: what the environment says is obeyed or
/// refused there. Calls twice and prints a line for each: who ran, or the error.
namespace {

class Starter final : public fla_test::MixBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "starter", .env_var = "FLA_TEST_STARTER"}; }
  fla_test::MixResult mix_chunk(const fla_test::MixArgs&) override { return {"starter"}; }
};
FLA_REGISTER_BACKEND(mix, starter, Starter);

void print_first_token() {
  const float one = 1;
  const fla::TensorView tensor(&one, fla::DType::f32, {1, 1, 1, 1});
  try {
    (void)fla::kda(
        {.q = tensor, .k = tensor, .v = tensor, .g = tensor, .beta = {&one, fla::DType::f32, {1, 1, 1}}});
    std::printf("kda: ran\n");
  } catch (const fla::ConfigError& error) {
    std::printf("kda: ConfigError: %s\n", error.what());
  }
}

void print_selected() {
  try {
    const auto by = fla_test::selected_backend();
    std::printf("mix: %.*s\n", static_cast<int>(by.size()), by.data());
  } catch (const fla::ConfigError& error) {
    std::printf("mix: ConfigError: %s\n", error.what());
  }
}

}  // namespace

int main(int count, char** words) {
  const bool mix = count > 1 && std::string_view(words[1]) == "mix";
  for (int i = 0; i < 2; ++i) mix ? print_selected() : print_first_token();
  return 0;
}
