#pragma once

#include <cstdint>

/// DLPack's binary layout (its version 0 structs, which every exporter still speaks), under names of our own:
/// the public header only forward-declares DLManagedTensor, so that a program may include whichever dlpack.h
/// it likes.
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

}  // namespace fla::dlpack
