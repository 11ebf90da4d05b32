#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/dtype.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/catalog/registration.h"

/// An op of the tests' own, `mix`, with two functions that do nothing but say who ran, and backends made of
/// what a test wants them to say.
namespace fla_test {

struct MixResult {
  std::string_view by;
};

struct MixArgs {
  using Result = MixResult;
  std::int64_t K = 128;
  fla::DType dtype = fla::DType::f32;
};

MixResult mix_chunk(const MixArgs& args);
MixResult mix_step(const MixArgs& args);

namespace original {
MixResult mix_chunk(const MixArgs& args);
MixResult mix_step(const MixArgs& args);
}  // namespace original

class MixBackend : public fla::BaseBackend {
 public:
  virtual MixResult mix_chunk(const MixArgs& args);
  virtual fla::Verdict mix_chunk_verifier(const MixArgs& args) const;
  virtual MixResult mix_step(const MixArgs& args);
  virtual fla::Verdict mix_step_verifier(const MixArgs& args) const;
  virtual std::string route(std::string_view function, const MixArgs& args) const;

  template <class Type>
  static std::vector<fla::dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(MixBackend, Type, mix_chunk), FLA_BACKEND_SLOT(MixBackend, Type, mix_step)};
  }
};

/// What a fake backend is and says; what is left out is the simplest thing that works.
struct Fake {
  std::string name;
  int priority = 50;
  std::string env_var{};
  bool default_enable = true;
  std::function<fla::Availability()> available{};
  std::function<fla::Verdict(const MixArgs&)> verify{};
  std::function<MixResult(const MixArgs&)> run{};
  std::function<std::string(std::string_view function, const MixArgs&)> route{};
  bool batch_invariant = false;
};

/// Serves mix_chunk alone: mix_step is not implemented.
class FakeBackend final : public MixBackend {
 public:
  explicit FakeBackend(Fake fake) : fake_(std::move(fake)) {}

  fla::BackendInfo info() const override {
    return {.name = fake_.name,
            .package = "nothing",
            .env_var = fake_.env_var,
            .default_enable = fake_.default_enable,
            .priority = fake_.priority,
            .doc = "a backend for tests",
            .batch_invariant = fake_.batch_invariant};
  }
  fla::Availability is_available() const override {
    return fake_.available ? fake_.available() : fla::Availability::yes();
  }
  fla::Verdict mix_chunk_verifier(const MixArgs& args) const override {
    return fake_.verify ? fake_.verify(args) : fla::accept();
  }
  MixResult mix_chunk(const MixArgs& args) override {
    return fake_.run ? fake_.run(args) : MixResult{fake_.name};
  }
  std::string route(std::string_view function, const MixArgs& args) const override {
    return fake_.route ? fake_.route(function, args) : "";
  }

 private:
  Fake fake_;
};

[[nodiscard]] inline fla::RegisteredBackend add(Fake fake) {
  return fla::register_backend("mix", std::make_unique<FakeBackend>(std::move(fake)));
}

/// Who takes a call of mix_chunk.
inline std::string_view selected_backend(const MixArgs& args = {}) { return mix_chunk(args).by; }

}  // namespace fla_test
