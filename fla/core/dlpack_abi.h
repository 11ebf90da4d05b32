#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "fla/core/device.h"
#include "fla/core/dtype.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"

/// DLPack's binary layout (its version 0 structs, which every exporter still speaks, and what version 1 put
/// around them), under names of our own: the public header only forward-declares DLManagedTensor, so that a
/// program may include whichever dlpack.h it likes.
namespace fla::dlpack {

enum DeviceCode : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t { kInt = 0, kFloat = 2, kBfloat = 4 };

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // null: row-major
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  std::uint32_t major, minor;
};

struct VersionedTensor {
  static constexpr std::uint64_t kReadOnly = 1;  // a bit of `flags`

  Version version;
  void* manager;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

/// Nothing for a type that fla does not have.
inline std::optional<DType> dtype_of(DataType type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == kBfloat && type.bits == 16) return DType::bf16;
  if (type.code == kFloat && type.bits == 16) return DType::f16;
  if (type.code == kFloat && type.bits == 32) return DType::f32;
  if (type.code == kInt && type.bits == 32) return DType::i32;
  if (type.code == kInt && type.bits == 64) return DType::i64;
  return std::nullopt;
}

inline DataType datatype_of(DType type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  switch (type) {
    case DType::bf16: return {kBfloat, bits, 1};
    case DType::f16:
    case DType::f32: return {kFloat, bits, 1};
    case DType::i32:
    case DType::i64: return {kInt, bits, 1};
  }
  return {};
}

/// Nothing for a device that fla does not have.
inline std::optional<fla::Device> device_of(Device device) {
  switch (device.type) {
    case kCpu:
    case kCudaHost: return fla::Device{};
    case kCuda:
    case kCudaManaged:
      if (!std::in_range<std::int16_t>(device.id) || device.id < 0) return std::nullopt;
      return fla::Device{DeviceType::cuda, static_cast<std::int16_t>(device.id)};
    default: return std::nullopt;
  }
}

inline Device device_of(fla::Device device) { return {device.is_cpu() ? kCpu : kCuda, device.index}; }

/// Where the tensor lies and how. Throws InvalidArgument, with that argument's name, for sizes and strides
/// that nothing in memory has.
FLA_API TensorView view_of(const Tensor& tensor, DType dtype, fla::Device device, std::string_view argument);
/// The same for a dtype and a device that fla has and elements at multiples of their size; throws likewise
/// for others.
FLA_API TensorView view_of(const Tensor& tensor, std::string_view argument);

}  // namespace fla::dlpack
