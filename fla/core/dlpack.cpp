#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "fla/core/dlpack_abi.h"
#include "fla/core/errors.h"
#include "fla/core/tensor.h"

namespace fla {
namespace {

/// What an exported tensor hangs on: the memory's owner and the arrays that DLPack points to.
struct Export {
  dlpack::ManagedTensor managed{};
  std::array<std::int64_t, TensorView::kMaxRank> shape{}, strides{};
  Tensor tensor;
};

}  // namespace

TensorView dlpack::view_of(const Tensor& tensor, DType dtype, fla::Device device, std::string_view argument) {
  if (tensor.ndim < 0 || tensor.ndim > TensorView::kMaxRank) {
    throw InvalidArgument(argument, "expected 0 to " + std::to_string(TensorView::kMaxRank) +
                                        " dimensions, got " + std::to_string(tensor.ndim));
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    throw InvalidArgument(
        argument, "expected a shape of " + std::to_string(tensor.ndim) + " dimensions, got a null pointer");
  }
  const std::span<const std::int64_t> shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  // Nothing plus an offset must not look like memory.
  void* data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  try {
    return tensor.strides == nullptr
               ? TensorView(data, dtype, shape, device)
               : TensorView(data, dtype, shape, std::span(tensor.strides, shape.size()), device);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(argument, error.what());
  }
}

TensorView dlpack::view_of(const Tensor& tensor, std::string_view argument) {
  const std::optional<DType> dtype = dtype_of(tensor.dtype);
  if (!dtype) {
    throw InvalidArgument(argument, "expected bf16, f16, f32, i32 or i64, got type code " +
                                        std::to_string(tensor.dtype.code) + " of " +
                                        std::to_string(tensor.dtype.bits) + " bits and " +
                                        std::to_string(tensor.dtype.lanes) + " lanes");
  }
  const std::optional<fla::Device> device = device_of(tensor.device);
  if (!device) {
    throw InvalidArgument(argument, "expected a CPU or CUDA tensor, got device type " +
                                        std::to_string(tensor.device.type) + " and index " +
                                        std::to_string(tensor.device.id));
  }
  const TensorView view = view_of(tensor, *dtype, *device, argument);
  if (reinterpret_cast<std::uintptr_t>(view.data()) % size_of(*dtype) != 0)
    throw InvalidArgument(argument, "expected elements at addresses that are multiples of their size");
  return view;
}

Tensor Tensor::from_dlpack(DLManagedTensor* opaque) {
  if (opaque == nullptr) throw InvalidArgument("dlpack", "expected a tensor, got a null pointer");
  auto* managed = reinterpret_cast<dlpack::ManagedTensor*>(opaque);
  const TensorView view = dlpack::view_of(managed->tensor, "dlpack");
  std::shared_ptr<void> owner(managed, [](void* memory) {
    auto* tensor = static_cast<dlpack::ManagedTensor*>(memory);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
  return over(view, std::move(owner));
}

DLManagedTensor* Tensor::to_dlpack() const {
  auto holder = std::make_unique<Export>();
  holder->tensor = *this;
  std::ranges::copy(view_.shape(), holder->shape.begin());
  std::ranges::copy(view_.strides(), holder->strides.begin());
  holder->managed.tensor = {
      .data = data(),
      .device = dlpack::device_of(device()),
      .ndim = std::max(rank(), 0),
      .dtype = dlpack::datatype_of(dtype()),
      .shape = holder->shape.data(),
      .strides = holder->strides.data(),
      .byte_offset = 0,
  };
  holder->managed.manager = holder.get();
  holder->managed.deleter = [](dlpack::ManagedTensor* self) { delete static_cast<Export*>(self->manager); };
  return reinterpret_cast<DLManagedTensor*>(&holder.release()->managed);
}

}  // namespace fla
