#include "fla/core/device_memory.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_memory.h"
#include "fla/core/errors.h"
#include "fla/core/fork.h"

namespace fla {
namespace {

constexpr std::align_val_t kAlignment{256};

void require(Device device) {
  if (device.is_cpu() || find_cuda_device(device) != nullptr) return;
  const std::size_t count = cuda_devices().size();
  std::string expected = "cpu";
  if (count == 1) expected += " or cuda:0";
  if (count > 1) expected += " or cuda:0 to cuda:" + std::to_string(count - 1);
  const std::string why = count == 0 ? ": " + std::string(why_no_cuda_device()) : "";
  throw InvalidArgument("device", "expected " + expected + ", got " + to_string(device) + why);
}

constexpr DeviceAllocator kPool{
    .allocate = [](void*, std::size_t bytes, Device device,
                   Stream stream) { return cuda::allocate(bytes, device, stream); },
    .release = [](void*, void* memory, std::size_t, Device device,
                  Stream stream) { cuda::release(memory, device, stream); }};

std::mutex allocator_mutex;
DeviceAllocator allocator = kPool;
[[maybe_unused]] const bool allocator_guarded =
    (guard_against_fork(CoreLock::device_allocator, allocator_mutex), true);

DeviceAllocator current_allocator() {
  const std::lock_guard lock(allocator_mutex);
  return allocator;
}

/// Gives memory back to whoever it came from.
struct Release {
  DeviceAllocator from;
  std::size_t bytes;
  Device device;
  Stream stream;
  void operator()(void* memory) const { from.release(from.context, memory, bytes, device, stream); }
};

std::size_t bytes_of(const TensorView& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
}

void require_contiguous(const char* argument, const TensorView& tensor) {
  if (tensor.is_contiguous()) return;
  throw InvalidArgument(argument, "expected a contiguous tensor, got " + tensor.describe() +
                                      " with strides " + shape_text(tensor.strides()));
}

/// The elements of a tensor on the CPU, one after the other.
void pack(const TensorView& from, std::byte* to) {
  const std::size_t element = size_of(from.dtype());
  std::array<std::int64_t, TensorView::kMaxRank> at{};
  for (std::int64_t left = from.numel(); left > 0; --left, to += element) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < from.rank(); ++axis)
      offset += at[static_cast<std::size_t>(axis)] * from.stride(axis);
    std::memcpy(to, from.as<std::byte>() + offset * static_cast<std::int64_t>(element), element);
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      if (++at[static_cast<std::size_t>(axis)] < from.size(axis)) break;
      at[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

/// An axis with more than one place, `step` bytes from one to the next.
struct Steps {
  std::int64_t step, count;
};

void fill_zeros(std::byte* memory, const Steps& rows, std::size_t bytes, Device device, Stream stream) {
  const auto step = static_cast<std::size_t>(rows.step), count = static_cast<std::size_t>(rows.count);
  if (device.is_cpu()) {
    for (std::size_t row = 0; row < count; ++row) std::memset(memory + row * step, 0, bytes);
  } else if (count == 1) {
    cuda::fill_zeros(memory, bytes, device, stream);
  } else {
    cuda::fill_zeros(memory, bytes, count, step, device, stream);
  }
}

}  // namespace

void set_device_allocator(const DeviceAllocator& given) {
  if ((given.allocate == nullptr) != (given.release == nullptr)) {
    throw InvalidArgument("allocator", "expected both allocate and release or neither, got one of them");
  }
  const std::lock_guard lock(allocator_mutex);
  allocator = given.allocate == nullptr ? kPool : given;
}

std::shared_ptr<void> allocate_on(Device device, std::size_t bytes, Stream stream) {
  require(device);
  bytes = std::max<std::size_t>(bytes, 1);
  if (device.is_cpu()) {
    return {::operator new(bytes, kAlignment), [](void* memory) { ::operator delete(memory, kAlignment); }};
  }
  const Release release{current_allocator(), bytes, device, stream};
  void* memory = release.from.allocate(release.from.context, bytes, device, stream);
  if (memory == nullptr) throw std::bad_alloc();
  return {memory, release};
}

Tensor empty_on(std::span<const std::int64_t> shape, DType dtype, Device device, Stream stream) {
  const TensorView layout(nullptr, dtype, shape, device);
  std::shared_ptr<void> memory = allocate_on(device, bytes_of(layout), stream);
  void* data = memory.get();
  return Tensor::over(TensorView(data, dtype, shape, device), std::move(memory));
}

void copy(const TensorView& from, const TensorView& to, Stream stream) {
  if (!from.defined()) throw InvalidArgument("from", "expected a tensor, got none");
  if (!to.defined() || to.dtype() != from.dtype() || !std::ranges::equal(to.shape(), from.shape())) {
    throw InvalidArgument("to",
                          "expected the dtype and shape of " + from.describe() + ", got " + to.describe());
  }
  require_contiguous("from", from);
  require_contiguous("to", to);
  require(from.device());
  require(to.device());
  const std::size_t bytes = bytes_of(from);
  if (bytes == 0) return;
  if (from.device().is_cpu() && to.device().is_cpu()) {
    std::memmove(to.data(), from.data(), bytes);
  } else {
    cuda::copy(to.data(), to.device(), from.data(), from.device(), bytes, stream);
  }
}

Tensor copy_to(const TensorView& tensor, Device device, Stream stream) {
  if (!tensor.defined()) throw InvalidArgument("tensor", "expected a tensor, got none");
  if (!tensor.device().is_cpu()) require_contiguous("tensor", tensor);
  if (tensor.is_contiguous()) {
    const Tensor result = empty_on(tensor.shape(), tensor.dtype(), device, stream);
    copy(tensor, result, stream);
    return result;
  }
  require(device);
  const Tensor packed = Tensor::empty(tensor.shape(), tensor.dtype());
  pack(tensor, packed.as<std::byte>());
  return device.is_cpu() ? packed : copy_to(packed, device, stream);
}

void clear(const TensorView& tensor, Stream stream) {
  if (tensor.numel() == 0) return;
  require(tensor.device());
  auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype()));
  std::byte* const first = tensor.as<std::byte>() + tensor.extent().begin;
  std::array<Steps, TensorView::kMaxRank> axes;  // by their steps, the smallest first
  auto end = axes.begin();
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) < 2 || tensor.stride(axis) == 0) continue;
    const Steps steps{std::abs(tensor.stride(axis)) * bytes, tensor.size(axis)};
    const auto place = std::find_if(axes.begin(), end, [&](const Steps& x) { return x.step > steps.step; });
    std::move_backward(place, end, end + 1);
    *place = steps;
    ++end;
  }
  // The axes without gaps are one run of bytes, the next one counts the rows of a fill, and the others the
  // fills.
  auto next = axes.begin();
  for (; next != end && next->step == bytes; ++next) bytes *= next->count;
  constexpr std::int64_t kWidest = std::numeric_limits<std::int32_t>::max();  // pitch of a 2D fill
  const Steps rows = next != end && next->step <= kWidest ? *next++ : Steps{bytes, 1};
  std::int64_t fills = 1;
  for (auto axis = next; axis != end; ++axis) fills *= axis->count;
  for (std::int64_t fill = 0; fill < fills; ++fill) {
    std::int64_t offset = 0, left = fill;
    for (auto axis = next; axis != end; left /= axis->count, ++axis)
      offset += left % axis->count * axis->step;
    fill_zeros(first + offset, rows, static_cast<std::size_t>(bytes), tensor.device(), stream);
  }
}

void synchronize(Device device, Stream stream) {
  require(device);
  if (!device.is_cpu()) cuda::synchronize(device, stream);
}

}  // namespace fla
