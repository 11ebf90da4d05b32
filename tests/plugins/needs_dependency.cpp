#include "fla/dispatch/plugins/plugin.h"
#include "fla/ops/kda/kda.h"

int answer();

namespace {

class Needy final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "needy"}; }
  fla::KdaResult chunk_kda(const fla::KdaArgs& args) override { return fla::original::chunk_kda(args); }
};

}  // namespace

FLA_PLUGIN(needs_dependency) {
  if (answer() == 42) {
    FLA_REGISTER_BACKEND(kda, needy, Needy);
  }
}
