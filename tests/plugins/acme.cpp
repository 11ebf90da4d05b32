#include "fla/dispatch/plugins/plugin.h"
#include "fla/ops/kda/kda.h"
#include "tests/plugins/events.h"

/// A plugin as vendors write them, with a kernel that is none: it takes calls with K = 64.
namespace {

const fla_test::NotedLife life;

class Acme final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override {
    return {.name = "acme", .package = "acme", .env_var = "FLA_ACME", .priority = 1, .doc = "K = 64"};
  }
  fla::Verdict chunk_kda_verifier(const fla::KdaArgs& args) const override {
    if (args.q.size(3) != 64) return fla::refuse("requires K=64, got {}", args.q.size(3));
    return fla::accept();
  }
  fla::KdaResult chunk_kda(const fla::KdaArgs& args) override { return fla::original::chunk_kda(args); }
};

}  // namespace

FLA_PLUGIN(acme) {
  fla_test::note("registered");
  FLA_REGISTER_BACKEND(kda, acme, Acme);
}
