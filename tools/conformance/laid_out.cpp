#include "tools/conformance/laid_out.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fla::conformance {
namespace {

constexpr std::int64_t kMargin = 128;    // bytes of poison on both sides, at least
constexpr std::int64_t kAlignment = 64;  // of row-major elements, as of a Tensor's
constexpr std::byte kPoison{0xff};

/// The sizes that dtypes have are known here: calling memcpy would take longer than the copy itself.
void copy_element(std::byte* to, const std::byte* from, std::size_t size) {
  switch (size) {
    case 2: std::memcpy(to, from, 2); break;
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    default: std::memcpy(to, from, size);
  }
}

}  // namespace

Layout Layout::random(int rank, cases::Random& random) {
  Layout layout;
  const bool shuffle = random.chance(0.3f);
  for (int i = rank - 1; i > 0 && shuffle; --i) {
    std::swap(layout.order[static_cast<std::size_t>(i)],
              layout.order[static_cast<std::size_t>(random.between(0, i))]);
  }
  for (int axis = 0; axis < rank; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (random.chance(0.4f)) layout.gaps[i] = static_cast<int>(random.between(0, 3));
    layout.reversed[i] = random.chance(0.15f);
  }
  return layout;
}

Layout Layout::padded(int rank) {
  Layout layout;
  for (int axis = 0; axis < rank - 1; ++axis)
    layout.gaps[static_cast<std::size_t>(axis)] = axis == 1 ? 37 : 5;
  return layout;
}

Layout Layout::turned(int rank) {
  Layout layout;
  for (int axis = 0; axis < rank; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    layout.order[i] = (axis + 1) % rank;
    layout.gaps[i] = 1 + axis % 3;
  }
  if (rank > 0) layout.reversed[static_cast<std::size_t>(rank - 1)] = true;
  return layout;
}

LaidOut::LaidOut(std::span<const std::int64_t> shape, DType dtype, const Layout& layout) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  std::array<std::int64_t, TensorView::kMaxRank> strides{};
  std::int64_t step = 1, first = 0;
  for (auto at = shape.size(); at-- > 0;) {
    const auto axis = static_cast<std::size_t>(layout.order[at]);
    step += layout.gaps[axis];
    strides[axis] = layout.reversed[axis] ? -step : step;
    if (layout.reversed[axis]) first += step * std::max<std::int64_t>(shape[axis] - 1, 0);
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  memory_ = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>(step * element + 2 * kMargin + kAlignment), kPoison);
  before_ = *memory_;
  std::byte* start = memory_->data() + kMargin;
  start += (kAlignment - static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(start) % kAlignment)) %
           kAlignment;
  view_ = TensorView(start + first * element, dtype, shape, std::span(strides.data(), shape.size()));
}

LaidOut LaidOut::copy_of(const TensorView& source, const Layout& layout) {
  LaidOut copy(source.shape(), source.dtype(), layout);
  const std::vector<std::byte> elements = bytes_of(source);
  const auto size = size_of(source.dtype());
  const std::byte* next = elements.data();
  for_each_offset(copy.view_, [&](std::int64_t offset) {
    copy_element(copy.view_.as<std::byte>() + offset * static_cast<std::int64_t>(size), next, size);
    next += size;
  });
  copy.remember();
  return copy;
}

bool LaidOut::intact_around() const {
  std::vector<std::byte> expected = before_;
  const auto size = static_cast<std::int64_t>(size_of(view_.dtype()));
  const std::int64_t origin = view_.as<std::byte>() - memory_->data();
  for_each_offset(view_, [&](std::int64_t offset) {
    const auto at = static_cast<std::size_t>(origin + offset * size);
    copy_element(&expected[at], memory_->data() + at, static_cast<std::size_t>(size));
  });
  return are_equal(expected, *memory_);
}

bool LaidOut::intact() const { return are_equal(*memory_, before_); }

bool are_equal(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool same_bytes(const TensorView& a, const TensorView& b) { return are_equal(bytes_of(a), bytes_of(b)); }

std::vector<std::byte> bytes_of(const TensorView& view) {
  const auto size = size_of(view.dtype());
  if (view.numel() > 0 && view.is_contiguous()) {
    const auto* const first = view.as<std::byte>();
    return {first, first + static_cast<std::size_t>(view.numel()) * size};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(view.numel()) * size);
  std::byte* next = bytes.data();
  for_each_offset(view, [&](std::int64_t offset) {
    copy_element(next, view.as<std::byte>() + offset * static_cast<std::int64_t>(size), size);
    next += size;
  });
  return bytes;
}

}  // namespace fla::conformance
