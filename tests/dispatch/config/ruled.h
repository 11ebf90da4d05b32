#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/catalog/registration.h"

/// An op of the tests' own, `ruled`, whose arguments are described as an op's are, so that rules can speak of
/// them. Its functions do nothing but say who ran.
namespace fla_test {

struct RuledResult {
  std::string_view by;
};

#define FLA_RULED_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)                       \
  TENSOR(x, required, ::fla::kFloatTypes, "B T H K", "what is read")                            \
  TENSOR(w, required, ::fla::kFloatTypes, "B T HV V", "what is written")                        \
  NUMBER(scale, "a factor")                                                                     \
  NUMBER(lower_bound, "a bound")                                                                \
  INTEGER(depth, "a count")                                                                     \
  FLAG(fast, "a switch")                                                                        \
  FLAG(v_first, "another switch")                                                               \
  TENSOR(state, optional, ::fla::kStateTypes, "N HV K V; v_first: N HV V K", "where it starts") \
  INDEX(cu_seqlens, optional, ::fla::kIndexTypes, "N+1", "where packed sequences begin")        \
  OUTPUT(out, ::fla::kFloatTypes, "B T HV V", "", "memory for the result")

struct RuledArgs {
  using Result = RuledResult;
  FLA_ARGUMENT_MEMBERS(FLA_RULED_ARGUMENTS)
  static fla::ArgumentTable arguments();
};

/// Another function of the op, which has neither T nor HV.
#define FLA_RULED_STEP_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG) \
  TENSOR(x, required, ::fla::kFloatTypes, "B H K", "what is read")             \
  FLAG(only_in_steps, "a switch")

struct RuledStepArgs {
  using Result = RuledResult;
  FLA_ARGUMENT_MEMBERS(FLA_RULED_STEP_ARGUMENTS)
  static fla::ArgumentTable arguments();
};

RuledResult ruled_chunk(const RuledArgs& args);
RuledResult ruled_step(const RuledStepArgs& args);

namespace original {
RuledResult ruled_chunk(const RuledArgs& args);
RuledResult ruled_step(const RuledStepArgs& args);
}  // namespace original

class RuledBackend : public fla::BaseBackend {
 public:
  virtual RuledResult ruled_chunk(const RuledArgs& args);
  virtual fla::Verdict ruled_chunk_verifier(const RuledArgs& args) const;
  virtual RuledResult ruled_step(const RuledStepArgs& args);
  virtual fla::Verdict ruled_step_verifier(const RuledStepArgs& args) const;

  template <class Type>
  static std::vector<fla::dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(RuledBackend, Type, ruled_chunk),
            FLA_BACKEND_SLOT(RuledBackend, Type, ruled_step)};
  }
};

/// Takes every call, or says what it is told to say.
class NamedBackend final : public RuledBackend {
 public:
  explicit NamedBackend(std::string name, int priority,
                        std::function<fla::Verdict(const RuledArgs&)> verify = {})
      : name_(std::move(name)), priority_(priority), verify_(std::move(verify)) {}

  fla::BackendInfo info() const override {
    return {.name = name_, .package = "nothing", .priority = priority_, .doc = "a backend for tests"};
  }
  fla::Verdict ruled_chunk_verifier(const RuledArgs& args) const override {
    return verify_ ? verify_(args) : fla::accept();
  }
  RuledResult ruled_chunk(const RuledArgs&) override { return {name_}; }
  RuledResult ruled_step(const RuledStepArgs&) override { return {name_}; }

 private:
  std::string name_;
  int priority_;
  std::function<fla::Verdict(const RuledArgs&)> verify_;
};

[[nodiscard]] inline fla::RegisteredBackend add_ruled(
    std::string name, int priority, std::function<fla::Verdict(const RuledArgs&)> verify = {}) {
  return fla::register_backend("ruled",
                               std::make_unique<NamedBackend>(std::move(name), priority, std::move(verify)));
}

/// The sizes and options of a call of ruled_chunk that a test cares about.
struct Call {
  std::int64_t B = 1, T = 8, H = 2, HV = 2, K = 64, V = 64;
  fla::DType dtype = fla::DType::f32;
  fla::Device device{};
  std::int64_t packed = -1;  ///< so many packed sequences; -1: none are packed
  bool state = false, fast = false, v_first = false;
  std::optional<float> scale{}, lower_bound{};
  std::optional<std::int64_t> depth{};
};

/// Its arguments; the tensors point nowhere.
RuledArgs arguments_of(const Call& call);

/// Who takes such a call.
inline std::string_view ruled_backend(const Call& call = {}) { return ruled_chunk(arguments_of(call)).by; }

}  // namespace fla_test
