#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "fla/core/device.h"
#include "fla/core/dtype.h"
#include "fla/core/export.h"

struct DLManagedTensor;  // DLPack's; include your own dlpack.h to look inside

namespace fla {

class Tensor;

/// Where a tensor lies and how it is laid out. Owns nothing; trivially copyable. The memory must stay valid
/// for as long as a call that was given the view runs. A default-constructed view stands for an argument that
/// is absent. Strides count elements. Whether a kernel reads or writes through a view is the contract of the
/// argument it is. A view of a temporary Tensor, whose memory is gone with the statement, does not compile.
class TensorView {
 public:
  static constexpr int kMaxRank = 5;

  constexpr TensorView() = default;

  /// Row-major. Throws InvalidArgument for a negative size or more than kMaxRank dimensions.
  FLA_API TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape, Device device = {});
  TensorView(const void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device = {})
      : TensorView(data, dtype, std::span(shape.begin(), shape.size()), device) {}

  /// With strides of the caller's, in elements, as many as there are sizes.
  FLA_API TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape,
                     std::span<const std::int64_t> strides, Device device = {});
  TensorView(const void* data, DType dtype, std::initializer_list<std::int64_t> shape,
             std::initializer_list<std::int64_t> strides, Device device = {})
      : TensorView(data, dtype, std::span(shape.begin(), shape.size()),
                   std::span(strides.begin(), strides.size()), device) {}

  template <std::same_as<Tensor> Temporary>
  TensorView(const Temporary&&) = delete;
  template <std::same_as<Tensor> Temporary>
  TensorView& operator=(const Temporary&&) = delete;

  /// Whether the argument is there at all; an empty tensor is.
  constexpr bool defined() const { return rank_ >= 0; }

  constexpr int rank() const { return rank_; }
  constexpr DType dtype() const { return dtype_; }
  constexpr Device device() const { return device_; }
  constexpr std::int64_t size(int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  constexpr std::int64_t stride(int axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> shape() const {
    return {sizes_.data(), static_cast<std::size_t>(rank_ < 0 ? 0 : rank_)};
  }
  std::span<const std::int64_t> strides() const {
    return {strides_.data(), static_cast<std::size_t>(rank_ < 0 ? 0 : rank_)};
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

  FLA_API std::int64_t numel() const;
  FLA_API bool is_contiguous() const;

  /// The half-open range of bytes, from data(), that the elements occupy: {0, 0} when there are none.
  struct Extent {
    std::int64_t begin = 0, end = 0;
  };
  FLA_API Extent extent() const;

  /// Elements [begin, begin + length) of one axis; the memory is shared.
  FLA_API TensorView slice(int axis, std::int64_t begin, std::int64_t length) const;

  /// "f32[1, 8, 2, 64] on cpu"
  FLA_API std::string describe() const;

 private:
  void* data_ = nullptr;
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::array<std::int64_t, kMaxRank> strides_{};
  std::int8_t rank_ = -1;
  DType dtype_ = DType::f32;
  Device device_;
};

/// "[1, 8, 2, 64]"
FLA_API std::string shape_text(std::span<const std::int64_t> shape);

/// A tensor that owns its memory. Copies share it; the last one frees it. Converts to a view wherever one is
/// taken; a temporary one only where the view is not kept (a parameter of type const TensorView&). An empty
/// (default-constructed) tensor stands for a result that was not asked for.
class FLA_API Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory, 256-byte aligned. Throws InvalidArgument for a bad shape or a device that is not
  /// there, std::bad_alloc when there is not enough. On a GPU it can be used on every stream at once, for
  /// which the call waits for the legacy default stream, and goes back in the order of that stream: work of
  /// streams that do not wait for it must be done by then. empty_on (device_memory.h) does neither.
  static Tensor empty(std::span<const std::int64_t> shape, DType dtype, Device device = {});
  static Tensor empty(std::initializer_list<std::int64_t> shape, DType dtype, Device device = {}) {
    return empty(std::span(shape.begin(), shape.size()), dtype, device);
  }
  static Tensor zeros(std::span<const std::int64_t> shape, DType dtype, Device device = {});
  static Tensor zeros(std::initializer_list<std::int64_t> shape, DType dtype, Device device = {}) {
    return zeros(std::span(shape.begin(), shape.size()), dtype, device);
  }

  /// A tensor over memory that `owner` keeps alive; for a null owner the caller keeps it alive.
  static Tensor over(const TensorView& view, std::shared_ptr<void> owner = nullptr);

  /// Takes over a DLPack tensor without copying; its deleter runs when the last copy of the result is gone.
  /// Throws InvalidArgument for a dtype, device or rank that fla does not have, and for elements that are not
  /// at multiples of their size; the argument is the caller's
  /// still, then.
  static Tensor from_dlpack(DLManagedTensor* managed);

  /// A DLPack tensor over the same memory, which it keeps alive until its deleter is called.
  DLManagedTensor* to_dlpack() const;

  bool defined() const { return view_.defined(); }
  const TensorView& view() const& { return view_; }
  const TensorView& view() const&& = delete;
  operator const TensorView&() const& {
    return view_;
  }  // NOLINT(google-explicit-constructor): a tensor is a view

  int rank() const { return view_.rank(); }
  DType dtype() const { return view_.dtype(); }
  Device device() const { return view_.device(); }
  std::int64_t size(int axis) const { return view_.size(axis); }
  std::int64_t stride(int axis) const { return view_.stride(axis); }
  std::span<const std::int64_t> shape() const { return view_.shape(); }
  std::int64_t numel() const { return view_.numel(); }
  void* data() const { return view_.data(); }
  template <class T>
  T* as() const {
    return view_.as<T>();
  }

 private:
  TensorView view_;
  std::shared_ptr<void> owner_;
};

}  // namespace fla
