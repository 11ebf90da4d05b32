#include "fla/python/placement.h"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/distributed/placement.h"

namespace py = pybind11;

namespace fla::python {
namespace {

/// For each piece: its sequence and rank, where it begins and ends in the batch, where it is on its rank,
/// whether the sequence begins and ends there.
py::list pieces(const std::vector<std::int64_t>& cu_seqlens, int ranks, const std::string& layout) {
  using distributed::Placement;
  if (layout != "contiguous" && layout != "zigzag")
    throw InvalidArgument("layout", "expected contiguous or zigzag, got '" + layout + "'");
  const std::int64_t tokens = cu_seqlens.empty() ? 0 : cu_seqlens.back();
  const Placement placement =
      layout == "zigzag" ? Placement::zigzag(tokens, ranks) : Placement::contiguous(tokens, ranks);
  py::list all;
  for (const distributed::Piece& piece : pieces_of(placement, cu_seqlens, ranks)) {
    const int rank = placement.ranks[static_cast<std::size_t>(piece.part)];
    all.append(
        py::make_tuple(piece.sequence, rank, piece.begin, piece.end, piece.first, piece.begins, piece.ends));
  }
  return all;
}

}  // namespace

void add_placement(py::module_& module) { module.def("pieces", &pieces); }

}  // namespace fla::python
