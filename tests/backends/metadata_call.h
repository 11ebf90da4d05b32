#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "fla/ops/kda/kda.h"

namespace fla_test {

/// Tensors on a GPU as metadata, for verifiers: they lie at addresses, 2^40 bytes apart, that nobody ever
/// reads.
class MetadataTensors {
 public:
  /// A view of that shape at an address of its own.
  fla::TensorView tensor(std::initializer_list<std::int64_t> shape, fla::DType dtype = fla::DType::f32);
  /// The same view with another stride on one axis, `bytes` bytes further on.
  static fla::TensorView strided(const fla::TensorView& view, int axis, std::int64_t stride);
  static fla::TensorView moved(const fla::TensorView& view, std::int64_t bytes);

 protected:
  /// Puts all tensors of a call but its indices on another device.
  static void put_on(fla::Device device, fla::ArgumentTable table, void* args);

 private:
  std::uintptr_t last_ = std::uintptr_t{1} << 40;
};

/// A call of kda that goes forward.
class MetadataCall : public MetadataTensors {
 public:
  fla::KdaArgs args;

  /// The same call on another device.
  void put_on(fla::Device device);
  /// Gives it a slot in the pool for each batch, on the host.
  void index_on_host();

 private:
  std::vector<std::int32_t> slots_;
};

}  // namespace fla_test
