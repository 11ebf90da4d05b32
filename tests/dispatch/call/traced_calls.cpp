#include <cstdio>
#include <string_view>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "tests/dispatch/mix.h"

/// A program that a profiler may look into: calls that a backend takes (K = 1), that it fails (K = 2) and
/// that it refuses, so that the original kernel runs. What runs prints a line.
namespace {

using fla_test::MixArgs;
using fla_test::MixResult;

class Steady final : public fla_test::MixBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "steady"}; }
  fla::Verdict mix_chunk_verifier(const MixArgs& args) const override {
    return args.K <= 2 ? fla::accept() : fla::refuse("requires K of 1 or 2, got {}", args.K);
  }
  MixResult mix_chunk(const MixArgs& args) override {
    std::printf("steady runs\n");
    if (args.K == 2) throw fla::BackendError("no", fla::BackendError::Wrote::nothing);
    return {"steady"};
  }
};
FLA_REGISTER_BACKEND(mix, steady, Steady);

void call(std::int64_t K) {
  std::printf("call with K=%d\n", static_cast<int>(K));
  try {
    const std::string_view by = fla_test::selected_backend({.K = K});
    std::printf("taken by %.*s\n", static_cast<int>(by.size()), by.data());
  } catch (const fla::Error& error) {
    std::printf("error: %s\n", error.what());
  }
}

}  // namespace

int main() {
  for (const std::int64_t K : {1, 2, 3, 1}) call(K);
  const auto plan = fla::plan("mix", "mix_chunk", MixArgs{.K = 1});
  std::printf("plan\n");
  (void)plan({.K = 1});
  return 0;
}
