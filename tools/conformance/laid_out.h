#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fla/core/tensor.h"
#include "tools/cases/offsets.h"
#include "tools/cases/random.h"

namespace fla::conformance {

/// How a tensor lies in memory: which axis is outermost, how far apart its elements are, which way they run.
/// The default is row-major.
struct Layout {
  std::array<int, TensorView::kMaxRank> order{0, 1, 2, 3, 4};  ///< axes from the outermost to the innermost
  std::array<int, TensorView::kMaxRank> gaps{};  ///< elements left free after each step of the axis
  std::array<bool, TensorView::kMaxRank> reversed{};

  /// Anything: axes in any order, gaps, negative strides.
  static Layout random(int rank, cases::Random& random);
  /// Row-major with gaps after every row and a good many after every token.
  static Layout padded(int rank);
  /// The first axis innermost, gaps along every one, the last one backwards.
  static Layout turned(int rank);
};

/// A tensor inside a larger buffer that is filled with poison (every byte 0xff: NaN in each float type), so
/// that reading around the elements shows in the result and writing around them shows in the buffer.
class LaidOut {
 public:
  /// All elements poison.
  LaidOut(std::span<const std::int64_t> shape, DType dtype, const Layout& layout = {});
  /// Elements as `source` has them.
  static LaidOut copy_of(const TensorView& source, const Layout& layout = {});

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT(google-explicit-constructor)

  /// Whether no byte outside the elements was written.
  bool intact_around() const;
  /// Whether no byte at all was written since the last remember() or construction.
  bool intact() const;
  void remember() { before_ = *memory_; }

 private:
  std::shared_ptr<std::vector<std::byte>> memory_;
  std::vector<std::byte> before_;
  TensorView view_;
};

using cases::for_each_offset;

/// The elements' bytes, row-major.
std::vector<std::byte> bytes_of(const TensorView& view);

/// Whether both hold the same bytes.
bool same_bytes(const TensorView& a, const TensorView& b);

/// Compares memory at once, where == goes from byte to byte.
bool are_equal(const std::vector<std::byte>& a, const std::vector<std::byte>& b);

}  // namespace fla::conformance
