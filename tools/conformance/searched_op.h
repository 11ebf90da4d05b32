#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/settings/policy.h"
#include "tools/cases/op.h"
#include "tools/cases/random.h"
#include "tools/conformance/call_form.h"
#include "tools/conformance/conformance.h"

namespace fla::conformance {

/// What a backend says to a call.
struct Answer {
  std::string state, reason, place;
  /// Whether the backend takes it.
  bool takes() const { return state == "selected"; }
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// One function of one backend of an op, "original" for the original kernel, on one device.
struct Target {
  std::string function, backend;
  Device device{};
  bool indices_on_host = false;  ///< on a device: the call's indices stay on the host
};

/// What has calls of an op run at the backend and nowhere else.
Policy only(std::string_view op, std::string_view backend);

/// Inputs that are multiplied by powers of two together, so that the results stay what the recurrence can
/// hold.
struct Scaling {
  struct Part {
    std::string_view argument;
    int times;  ///< 2^n makes the argument 2^(n * times) times what it was
  };
  struct Given {
    std::string_view argument;
    bool given;
  };
  std::string_view name;
  std::vector<Part> parts;
  std::vector<Given> with{};   ///< what the call has, and has not
  int least = -60, most = 60;  ///< n
};

/// What the search for calls needs to know of an op beside its argument table. `args` is the op's argument
/// struct, on the host.
class SearchedOp {
 public:
  virtual ~SearchedOp() = default;

  virtual const cases::Op& op() const = 0;

  /// Of each group, the first call that a backend takes is varied.
  virtual std::vector<std::vector<CallForm>> seeds() const = 0;
  /// Likewise, for a backend that takes none of those: long ones.
  virtual std::vector<std::vector<CallForm>> long_seeds() const { return {}; }

  /// Which arguments go with which.
  virtual std::span<const Requirement> requirements() const { return {}; }
  /// Values that a number or an integer may have, sizes that an axis may have, all of them such that the
  /// result shows them.
  virtual std::vector<float> numbers(const Argument&) const { return {}; }
  virtual std::vector<std::int64_t> sizes(Axis) const { return {}; }
  /// Mends what the table cannot tell, such as a dtype that follows another argument's.
  virtual void settle(CallForm&) const {}

  /// Fills an input other than an index, so that every argument of the call shows in its result.
  virtual void fill(const Argument& argument, const TensorView& tensor, const void* args,
                    cases::Random& random) const = 0;

  virtual std::vector<Scaling> scalings(const Target&) const { return {}; }

  /// How far results may be from what is right, relative to their norm.
  virtual double tolerance(const void* args, const Target& target) const = 0;

  /// What is right, made before a run; then what is wrong with the run's results, empty when nothing is.
  virtual std::shared_ptr<const void> expected(const void* args) const = 0;
  virtual std::string wrong(const std::vector<cases::NamedTensor>& results, const void* expected,
                            const void* args, const Target& target) const = 0;

  /// Both as on the target and nowhere else. run() throws BackendError when the backend does not take the
  /// call, Error when something was written that is no output. The default serves the CPU.
  virtual Answer ask(const Target& target, const void* args) const;
  virtual std::vector<cases::NamedTensor> run(const Target& target, const void* args) const;
};

/// A call of a given form, inputs and outputs between poison.
class MadeCall {
 public:
  /// Nothing is filled in: good for asking.
  MadeCall(const SearchedOp& op, const CallForm& form);

  const void* args() const { return args_.get(); }
  const CallForm& form() const { return form_; }

  /// Fills all inputs.
  void fill(std::uint64_t seed);
  /// Fills one of them anew.
  void fill(const Argument& argument, std::uint64_t seed);
  /// Multiplies all elements of one, or sets one element.
  void scale(const Argument& argument, double factor);
  void set(const Argument& argument, std::int64_t offset, double value);

  const AxisSizes& sizes() const { return sizes_; }
  /// Where each packed sequence, or each batch, begins: N + 1 entries, the last of which is T. Of batches all
  /// are 0 but the last.
  std::vector<std::int64_t> sequence_starts() const;

  /// What was written that is no output, and outputs that were given and not used, each with its name.
  std::string damage(const std::vector<cases::NamedTensor>& results) const;

 private:
  struct Memory;
  Memory& memory_of(const Argument& argument);
  void place(const Argument& argument);
  TensorView& tensor(const Argument& argument) { return argument.tensor(args_.get()); }

  const SearchedOp* op_;
  CallForm form_;
  AxisSizes sizes_;
  std::shared_ptr<void> args_;
  std::shared_ptr<std::vector<Memory>> memory_;
};

}  // namespace fla::conformance
