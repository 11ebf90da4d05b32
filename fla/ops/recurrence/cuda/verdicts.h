#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/backend/verdict.h"

/// What the verifiers of CUDA backends ask alike, in the same words: of any op's struct.
namespace fla::cuda {

/// The devices that a backend's kernels run on.
struct ComputeCapability {
  int architecture;  ///< 90 for 9.0
  bool or_above;
  const char* text;  ///< "9.0"

  bool has(const CudaDevice& device) const {
    return device.architecture() == architecture || (or_above && device.architecture() > architecture);
  }
};

inline Availability available_on(const ComputeCapability& wanted) {
  const auto devices = cuda_devices();
  if (devices.empty()) return Availability::no(std::string(why_no_cuda_device()));
  if (std::ranges::any_of(devices, [&](const CudaDevice& device) { return wanted.has(device); }))
    return Availability::yes();
  const CudaDevice& device = devices.front();
  return Availability::no("requires compute capability " + std::string(wanted.text) + ", got " + device.name +
                          " with " + std::to_string(device.major) + "." + std::to_string(device.minor));
}

/// `device` is that of the call's tensors, which are on `named`; null where there is no such GPU.
inline Verdict verify_device(Device named, const CudaDevice* device, const ComputeCapability& wanted) {
  FLA_REFUSE_IF(named.is_cpu(), "requires CUDA tensors, got {}", named);
  FLA_REFUSE_IF(device == nullptr, "requires a GPU that is there, got {}", named);
  FLA_REFUSE_IF(!wanted.has(*device), "requires compute capability {}, got {}.{}", wanted.text, device->major,
                device->minor);
  return accept();
}
template <class Args>
Verdict verify_device(const Args& args, const CudaDevice* device, const ComputeCapability& wanted) {
  return verify_device(args.q.device(), device, wanted);
}

inline std::int64_t misalignment(const void* address, std::int64_t alignment) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) %
                                   static_cast<std::uintptr_t>(alignment));
}

/// Whether a workspace that the caller gives does for a call that takes so many bytes.
inline Verdict verify_workspace(const Workspace& workspace, std::size_t bytes) {
  if (bytes == 0 || workspace.data == nullptr) return accept();
  FLA_REFUSE_IF(workspace.bytes < bytes, "requires a workspace of {} bytes, got {}", bytes, workspace.bytes);
  const std::int64_t off = misalignment(workspace.data, 256);
  FLA_REFUSE_IF(off != 0, "requires a workspace aligned to 256 bytes, got an address {} bytes off", off);
  return accept();
}

/// q, k and v in one type of 16 bits.
template <class Args>
Verdict verify_16_bits(const Args& args) {
  const DType dtype = args.q.dtype();
  FLA_REFUSE_IF(dtype != DType::bf16 && dtype != DType::f16, "requires q in bf16 or f16, got {}", dtype);
  FLA_REFUSE_IF(args.k.dtype() != dtype, "requires k in the dtype of q, {}, got {}", dtype, args.k.dtype());
  FLA_REFUSE_IF(args.v.dtype() != dtype, "requires v in the dtype of q, {}, got {}", dtype, args.v.dtype());
  return accept();
}

/// A tensor, if there is one, in the type of q or in f32.
inline Verdict verify_dtype_of_q(const char* name, const TensorView& tensor, DType dtype) {
  FLA_REFUSE_IF(tensor.defined() && tensor.dtype() != dtype && tensor.dtype() != DType::f32,
                "requires {} in the dtype of q, {}, or in f32, got {}", name, dtype, tensor.dtype());
  return accept();
}

template <class Args>
Verdict verify_f32_states(const Args& args) {
  const TensorView &first = args.initial_state, &last = args.final_state;
  FLA_REFUSE_IF(first.defined() && first.dtype() != DType::f32, "requires an f32 initial_state, got {}",
                first.dtype());
  FLA_REFUSE_IF(last.defined() && last.dtype() != DType::f32, "requires an f32 final_state, got {}",
                last.dtype());
  return accept();
}

/// Rows of channels that are read 16 bytes at once, as far as it does not depend on strides between them.
inline Verdict verify_channels(const char* name, const TensorView& rows) {
  FLA_REFUSE_IF(rows.stride(3) != 1, "requires contiguous channels in {}, got stride {}", name,
                rows.stride(3));
  const std::int64_t off = misalignment(rows.data(), 16);
  FLA_REFUSE_IF(off != 0, "requires {} aligned to 16 bytes, got an address {} bytes off", name, off);
  return accept();
}

/// The same with strides between rows that keep them at multiples of 16 bytes, of elements that have 16 bits
/// or more.
inline Verdict verify_rows_of_8(const char* name, const TensorView& rows) {
  FLA_VERIFY(verify_channels(name, rows));
  for (const int axis : {0, 1, 2}) {
    FLA_REFUSE_IF(rows.size(axis) > 1 && rows.stride(axis) % 8 != 0,
                  "requires strides that are multiples of 8 in {}, got {}", name, rows.stride(axis));
  }
  return accept();
}

}  // namespace fla::cuda
