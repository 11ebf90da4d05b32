#pragma once

#include <string>
#include <vector>

#include "fla/ops/ops.h"
#include "tools/cases/random.h"
#include "tools/conformance/laid_out.h"

namespace fla_test {

/// A random call of an op, made from nothing but its argument table: shapes by their rules, any legal dtype,
/// any strides, options on and off, outputs given or not. Always valid.
template <fla::RecurrenceArgs Args>
class FuzzedCall {
 public:
  explicit FuzzedCall(fla::cases::Random& random);

  /// The call over inputs that it shares with every copy, but with outputs (and a state that is updated in
  /// place) of the copy's own, poisoned.
  struct Copy {
    Args args;
    std::vector<fla::conformance::LaidOut> outputs;
  };
  Copy copy() const;

  const Args& args() const { return args_; }
  bool inputs_intact() const;

  /// Makes one argument wrong in one way and says which; nothing when this call has no room for that. The
  /// arguments come from a copy of this call.
  struct Spoiled {
    std::string argument, how;
  };
  static Spoiled spoil(Copy& call, fla::cases::Random& random);

 private:
  struct Output {
    const fla::Argument* argument;
    fla::DType dtype;
    fla::conformance::Layout layout;
    bool in_place;
  };

  void choose_options();
  void place_inputs();
  void place_input(const fla::Argument& argument);
  void choose_outputs();
  void choose_output(const fla::Argument& argument);
  fla::conformance::Layout any_layout(int rank);
  fla::DType any_dtype(fla::DTypeSet types);
  std::vector<std::int64_t> shape_of(const fla::Argument& argument);
  void fill(const fla::Argument& argument, const fla::TensorView& tensor);
  void choose_slots();
  void mend();

  fla::cases::Random& random_;
  fla::AxisSizes sizes_;
  Args args_;
  enum class Strides { none, between_rows, any } strides_ = Strides::none;
  bool strong_decay_ = false;
  std::vector<fla::StateSlots> slots_;         // of every sequence; empty: no indices
  std::vector<std::int64_t> kept_, accepted_;  // slots of checkpoints, and which of them sequences start from
  std::vector<fla::conformance::LaidOut> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace fla_test
