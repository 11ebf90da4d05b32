#include "tests/plugins/acme_sum.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/plugins/plugin.h"

/// A plugin with an op of its own, acme_sum, that has a backend, and with a function for an op that is there.
namespace acme {

std::int64_t sum(const SumArgs& args);
std::int64_t count_tokens(const CountArgs& args);
namespace original {
std::int64_t sum(const SumArgs& args);
std::int64_t count_tokens(const CountArgs& args);
}  // namespace original

DISPATCH("acme_sum", std::int64_t, sum, const SumArgs& args) { return args.a + args.b; }
DISPATCH("kda", std::int64_t, count_tokens, const CountArgs& args) { return args.q.size(0) * args.q.size(1); }

class SumBackend : public fla::BaseBackend {
 public:
  using Args = SumArgs;
  virtual std::int64_t sum(const SumArgs&) { return 0; }
  virtual fla::Verdict sum_verifier(const SumArgs&) const { return fla::accept(); }
  template <class Type>
  static std::vector<fla::dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(SumBackend, Type, sum)};
  }
};

/// Says by a large number that it was here.
class Thousand final : public SumBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "thousand", .env_var = "FLA_THOUSAND"}; }
  fla::Verdict sum_verifier(const SumArgs& args) const override {
    return args.a >= 1000 ? fla::accept() : fla::refuse("requires a>=1000, got {}", args.a);
  }
  std::int64_t sum(const SumArgs& args) override { return 1'000'000 + args.a + args.b; }
};
FLA_REGISTER_BACKEND(acme_sum, thousand, Thousand);

}  // namespace acme

FLA_PLUGIN(acme_sum) {
  FLA_PLUGIN_OP(acme_sum, acme::SumArgs);
  FLA_PLUGIN_OP(kda, acme::CountArgs);
}
