#pragma once

#include <array>
#include <string>
#include <string_view>

#include "fla/ops/kda/kda.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// One function of one backend of kda, or of the original kernel, on one device. Calls are given on the host
/// and, on another device, stood for by a DeviceCall there; calls that are on the device already are taken as
/// they are.
struct KdaTarget {
  std::string function, backend;
  Device device{};
  DeviceIndices indices = DeviceIndices::on_device;

  /// Runs the call there and nowhere else. Throws BackendError when the backend does not take it, Error when
  /// something was written that is no output.
  KdaResult run(const KdaArgs& args) const;

  /// What the backend says to this call.
  Answer ask(const KdaArgs& args) const;

  DType precision() const;
};

inline constexpr std::array<std::string_view, 2> kKdaFunctions{"chunk_kda", "fused_recurrent_kda"};

}  // namespace fla::conformance
