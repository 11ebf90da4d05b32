#include "fla/core/tensor.h"

#include <algorithm>
#include <cstring>

#include "fla/core/cuda_memory.h"
#include "fla/core/device_memory.h"
#include "fla/core/errors.h"

namespace fla {
namespace {

void check_bytes(std::span<const std::int64_t> shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) {
      throw InvalidArgument("shape", shape_text(shape) + " has more bytes than memory can have");
    }
  }
}

/// The strides of a shape whose elements follow one another.
class RowMajor {
 public:
  explicit RowMajor(std::span<const std::int64_t> shape) : rank_(std::min(shape.size(), strides_.size())) {
    std::int64_t step = 1;
    for (std::size_t axis = rank_; axis-- > 0;) {
      strides_[axis] = step;
      if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[axis], 1), &step))
        step = 1;  // refused later
    }
  }
  std::span<const std::int64_t> strides() const { return {strides_.data(), rank_}; }

 private:
  std::array<std::int64_t, TensorView::kMaxRank> strides_{};
  std::size_t rank_;
};

void check_reach(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t reach = 1;  // in elements, over both ends: what extent() adds up stays below it
  for (std::size_t i = 0; i < strides.size(); ++i) {
    std::int64_t step = 0, span = 0;
    bool overflows = __builtin_mul_overflow(strides[i], strides[i] < 0 ? -1 : 1, &step);
    overflows |= __builtin_mul_overflow(step, std::max<std::int64_t>(shape[i] - 1, 0), &span);
    overflows |= __builtin_add_overflow(reach, span, &reach);
    if (overflows || __builtin_mul_overflow(reach, bytes, &span)) {
      throw InvalidArgument("strides", shape_text(strides) + " of sizes " + shape_text(shape) +
                                           " reach further than memory does");
    }
  }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

TensorView::TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape, Device device)
    : TensorView(data, dtype, shape, RowMajor(shape).strides(), device) {}

TensorView::TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, Device device)
    : data_(const_cast<void*>(data)),
      rank_(static_cast<std::int8_t>(shape.size())),
      dtype_(dtype),
      device_(device) {
  if (shape.size() > kMaxRank) {
    throw InvalidArgument(
        "shape", "expected at most " + std::to_string(kMaxRank) + " dimensions, got " + shape_text(shape));
  }
  if (strides.size() != shape.size()) {
    throw InvalidArgument("strides",
                          "expected as many as sizes " + shape_text(shape) + ", got " + shape_text(strides));
  }
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) {
    throw InvalidArgument("shape", "expected sizes of 0 and above, got " + shape_text(shape));
  }
  check_bytes(shape, dtype);
  check_reach(shape, strides, dtype);
  std::ranges::copy(shape, sizes_.begin());
  std::ranges::copy(strides, strides_.begin());
}

std::int64_t TensorView::numel() const {
  std::int64_t count = defined() ? 1 : 0;
  for (const std::int64_t size : shape()) count *= size;
  return count;
}

bool TensorView::is_contiguous() const {
  if (numel() == 0) return true;  // no element is out of place, whatever the strides
  std::int64_t step = 1;
  for (int axis = rank_ - 1; axis >= 0; --axis) {
    if (size(axis) != 1 && stride(axis) != step) return false;
    step *= size(axis);
  }
  return true;
}

TensorView::Extent TensorView::extent() const {
  if (numel() == 0) return {};
  Extent extent{0, 1};
  for (int axis = 0; axis < rank_; ++axis) {
    const std::int64_t reach = (size(axis) - 1) * stride(axis);
    (reach < 0 ? extent.begin : extent.end) += reach;
  }
  const auto bytes = static_cast<std::int64_t>(size_of(dtype_));
  return {extent.begin * bytes, extent.end * bytes};
}

TensorView TensorView::slice(int axis, std::int64_t begin, std::int64_t length) const {
  if (axis < 0 || axis >= rank_ || begin < 0 || length < 0 || begin > size(axis) - length) {
    throw InvalidArgument("slice", "axis " + std::to_string(axis) + ", begin " + std::to_string(begin) +
                                       ", length " + std::to_string(length) + " is outside " +
                                       shape_text(shape()));
  }
  TensorView part = *this;
  part.sizes_[static_cast<std::size_t>(axis)] = length;
  part.data_ =
      static_cast<std::byte*>(data_) + begin * stride(axis) * static_cast<std::int64_t>(size_of(dtype_));
  return part;
}

std::string TensorView::describe() const {
  if (!defined()) return "no tensor";
  return std::string(name_of(dtype_)) + shape_text(shape()) + " on " + to_string(device_);
}

Tensor Tensor::empty(std::span<const std::int64_t> shape, DType dtype, Device device) {
  Tensor tensor = empty_on(shape, dtype, device, {});
  if (!device.is_cpu()) synchronize(device);  // the caller may use it on any stream
  return tensor;
}

Tensor Tensor::zeros(std::span<const std::int64_t> shape, DType dtype, Device device) {
  Tensor tensor = empty_on(shape, dtype, device, {});
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_of(dtype);
  if (device.is_cpu()) {
    std::memset(tensor.data(), 0, bytes);
  } else {
    cuda::fill_zeros(tensor.data(), bytes, device, {});
    synchronize(device);
  }
  return tensor;
}

Tensor Tensor::over(const TensorView& view, std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.view_ = view;
  tensor.owner_ = std::move(owner);
  return tensor;
}

}  // namespace fla
