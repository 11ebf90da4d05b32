#pragma once

#include <array>
#include <string>
#include <string_view>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/child.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// One function of one backend of an op, or of the original kernel, on one device. Calls are given on the
/// host and, on another device, stood for by a DeviceCall there; calls that are on the device already are
/// taken as they are.
template <RecurrenceArgs Args>
struct OpTarget {
  std::string function, backend;
  Device device{};
  DeviceIndices indices = DeviceIndices::on_device;

  static constexpr std::array kFunctions{Args::kOp.chunk, Args::kOp.recurrent};

  /// Runs the call there and nowhere else. Throws BackendError when the backend does not take it, Error when
  /// something was written that is no output.
  RecurrenceResult run(const Args& args) const {
    note_progress(function + " [" + describe(args) + "]");
    if (args.q.device() == device) return run_as_it_is(args);
    DeviceCall call(args, device, indices);
    RecurrenceResult result = call.bring_back(run_as_it_is(call.args()));
    if (!call.damage().empty()) throw Error(call.damage());
    return result;
  }

  /// What the backend says to this call.
  Answer ask(const Args& args) const {
    if (backend == "original") return {"selected", "", ""};
    if (args.q.device() != device) return ask(DeviceCall(args, device, indices).args());
    const ScopedPolicy policy(only(Args::kOp.name, backend));
    for (const Explanation::Row& row : explain(Args::kOp.name, function, args).rows) {
      if (row.name == backend) return {row.state, row.reason, row.place};
    }
    return {"absent", "", ""};
  }

  DType precision() const { return precision_of(Args::kOp.name, backend); }

 private:
  RecurrenceResult run_as_it_is(const Args& args) const {
    using Functions = cases::Functions<Args>;
    const bool chunk = function == Args::kOp.chunk;
    if (backend == "original")
      return chunk ? Functions::original_chunk(args) : Functions::original_recurrent(args);
    const ScopedPolicy policy(only(Args::kOp.name, backend));
    return chunk ? Functions::chunk(args) : Functions::recurrent(args);
  }
};

}  // namespace fla::conformance
