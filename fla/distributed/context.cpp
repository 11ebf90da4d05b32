#include "fla/distributed/context.h"

#include <utility>

namespace fla::distributed {

Transport::~Transport() = default;

Context::Context(std::unique_ptr<Transport> transport, std::span<const std::int64_t> cu_seqlens,
                 const Placement& placement)
    : transport_(std::move(transport)),
      ranks_(placement.ranks),
      all_(pieces_of(placement, cu_seqlens, transport_->ranks())) {
  for (const Piece& piece : all_) {
    if (!is_mine(piece)) continue;
    starts_.push_back(piece.first);
    mine_.push_back(piece);
  }
  std::int64_t tokens = 0;
  for (std::size_t part = 0; part < ranks_.size(); ++part) {
    if (ranks_[part] == rank()) tokens += placement.cuts[part + 1] - placement.cuts[part];
  }
  if (mine_.empty()) starts_.push_back(0);
  starts_.push_back(tokens);
}

bool Context::is_mine(const Piece& piece) const {
  return ranks_[static_cast<std::size_t>(piece.part)] == rank();
}

TensorView Context::cu_seqlens() const {
  return {starts_.data(), DType::i64, {static_cast<std::int64_t>(starts_.size())}};
}

std::vector<std::span<const float>> Context::exchange(
    std::int64_t size, bool (*gives)(const Piece&),
    const std::function<void(std::size_t, std::span<float>)>& fill) {
  std::vector<float> given;
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    if (!gives(mine_[i])) continue;
    given.resize(given.size() + static_cast<std::size_t>(size), 0.0f);
    fill(i, std::span(given).last(static_cast<std::size_t>(size)));
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks()), 0);
  bool any = false;
  for (const Piece& piece : all_) {
    if (!gives(piece)) continue;
    counts[static_cast<std::size_t>(ranks_[static_cast<std::size_t>(piece.part)])] += size;
    any = true;
  }
  std::vector<std::span<const float>> blocks(all_.size());
  if (!any) return blocks;  // no sequence is on two ranks, and all of them know
  bytes_sent_ += static_cast<std::int64_t>(given.size() * sizeof(float));
  gathered_ = transport_->all_gather(std::move(given), counts);
  std::vector<std::int64_t> next(counts.size(), 0);
  for (std::size_t rank = 1; rank < next.size(); ++rank) next[rank] = next[rank - 1] + counts[rank - 1];
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (!gives(all_[i])) continue;
    std::int64_t& at = next[static_cast<std::size_t>(ranks_[static_cast<std::size_t>(all_[i].part)])];
    blocks[i] = std::span(gathered_).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
    at += size;
  }
  return blocks;
}

}  // namespace fla::distributed
