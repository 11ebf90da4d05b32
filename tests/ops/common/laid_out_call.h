#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "fla/core/arguments.h"
#include "tools/conformance/laid_out.h"

namespace fla_test {

/// A call of any op with copies of its tensors, which lie as layout_of(rank) says, between poison. An output
/// that is an input in place stays so.
template <class Args>
class LaidOutCall {
 public:
  template <class LayoutOf>
  LaidOutCall(const Args& source, LayoutOf&& layout_of) : args(source) {
    for (const fla::Argument& argument : Args::arguments()) {
      if (!argument.is_tensor() || !argument.tensor(&source).defined()) continue;
      fla::TensorView& tensor = argument.tensor(static_cast<void*>(&args));
      const fla::Argument* const other = fla::find_argument(Args::arguments(), argument.in_place_of);
      if (other != nullptr && other->tensor(&source).data() == tensor.data()) {
        tensor = other->tensor(&args);
        std::ranges::find(tensors_, other, &Placed::argument)->written = true;
        continue;
      }
      const bool written = argument.kind == fla::ArgumentKind::output;
      tensors_.push_back(
          {&argument, fla::conformance::LaidOut::copy_of(tensor, layout_of(tensor.rank())), written});
      tensor = tensors_.back().memory.view();
    }
  }

  /// Whether nothing was written but elements of outputs.
  bool intact() const {
    return std::ranges::all_of(tensors_, [](const Placed& each) {
      return each.written ? each.memory.intact_around() : each.memory.intact();
    });
  }

  Args args;

 private:
  struct Placed {
    const fla::Argument* argument;
    fla::conformance::LaidOut memory;
    bool written;
  };
  std::vector<Placed> tensors_;
};

}  // namespace fla_test
