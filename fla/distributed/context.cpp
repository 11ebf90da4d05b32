#include "fla/distributed/context.h"

#include <array>
#include <numeric>
#include <utility>

#include "fla/core/device_memory.h"

namespace fla::distributed {

Transport::~Transport() = default;

void Transport::synchronize(Device device, Stream stream) { fla::synchronize(device, stream); }

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

Context::Blocks Context::exchange(std::int64_t size, bool (*gives)(const Piece&), Device device,
                                  Stream stream,
                                  const std::function<void(std::size_t, const TensorView&)>& fill) {
  const auto rank_of = [&](const Piece& piece) {
    return static_cast<std::size_t>(ranks_[static_cast<std::size_t>(piece.part)]);
  };
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks()), 0);
  for (const Piece& piece : all_) {
    if (gives(piece)) counts[rank_of(piece)] += size;
  }
  Blocks blocks{.memory = {}, .of = std::vector<TensorView>(all_.size())};
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total == 0) return blocks;  // no sequence is on two ranks, and all of them know

  const auto block_at = [&](const Tensor& memory, std::int64_t at) {
    return memory.view().slice(0, at, size);
  };
  Tensor given = empty_on(std::array{counts[static_cast<std::size_t>(rank())]}, DType::f32, device, stream);
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    if (!gives(mine_[i])) continue;
    fill(i, block_at(given, filled));
    filled += size;
  }
  bytes_sent_ += filled * static_cast<std::int64_t>(sizeof(float));
  const Device between = transport_->device();
  if (device != between) given = copy_to(given, between, stream);
  blocks.memory = transport_->all_gather(std::move(given), counts, stream);
  if (device != between) blocks.memory = copy_to(blocks.memory, device, stream);

  std::vector<std::int64_t> next(counts.size(), 0);
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::int64_t{0});
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (!gives(all_[i])) continue;
    std::int64_t& at = next[rank_of(all_[i])];
    blocks.of[i] = block_at(blocks.memory, at);
    at += size;
  }
  return blocks;
}

}  // namespace fla::distributed
