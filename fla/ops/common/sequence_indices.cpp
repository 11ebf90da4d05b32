#include "fla/ops/common/sequence_indices.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/core/scratch.h"
#include "fla/core/stream_state.h"
#include "fla/ops/common/index_checks.h"
#include "fla/ops/common/views_of.h"

namespace fla::common {
namespace {

/// An index under the name that messages give it.
struct NamedIndex {
  const char* name;
  const TensorView& entries;

  bool readable() const { return entries.defined() && entries.device().is_cpu(); }
  std::int64_t operator[](std::int64_t i) const { return indices_of(entries)[i]; }
  std::string entry(std::int64_t i) const {
    return name + ("[" + std::to_string(i) + "]=") + std::to_string((*this)[i]);
  }
};

std::string sized(const char* axis, std::int64_t size) {
  return std::string(axis) + "=" + std::to_string(size);
}

// ---- what is given

void check_starts_are_due(const SequenceArguments& args, const AxisSizes& sizes) {
  if (!args.cu_seqlens.defined()) return;
  if (sizes[Axis::B] != 1) {
    throw InvalidArgument("cu_seqlens",
                          "expected B=1 with packed sequences, got " + sized("B", sizes[Axis::B]));
  }
  if (sizes[Axis::N] < 1) {
    throw InvalidArgument("cu_seqlens",
                          "expected at least two entries, got " + std::to_string(args.cu_seqlens.size(0)));
  }
}

void check_slots_are_due(const SequenceArguments& args) {
  if (!args.state_indices.defined() || args.final_state.defined()) return;
  // What is written goes into the caller's pool: the other slots of one made here would hold nothing.
  if (args.state_write_indices.defined())
    throw InvalidArgument("final_state",
                          "expected the pool that state_write_indices name slots of, got none");
  if (args.output_final_state) {
    throw InvalidArgument(
        "final_state", "expected the pool to write to with state_indices and output_final_state, got none");
  }
  if (!args.initial_state.defined()) {
    throw InvalidArgument("state_indices",
                          "expected initial_state or final_state, whose slots they name, got neither");
  }
}

// ---- what they hold

void check_starts(const NamedIndex& starts, std::int64_t T) {
  if (!starts.readable()) return;
  if (starts[0] != 0)
    throw InvalidArgument(starts.name, "expected a first entry of 0, got " + starts.entry(0));
  const std::int64_t last = starts.entries.size(0) - 1;
  for (std::int64_t i = 1; i <= last; ++i) {
    if (starts[i] < starts[i - 1]) {
      throw InvalidArgument(starts.name, "expected entries that never fall, got " + starts.entry(i - 1) +
                                             " and " + starts.entry(i));
    }
  }
  if (starts[last] > T) {
    throw InvalidArgument(
        starts.name, "expected a last entry of at most " + sized("T", T) + ", got " + starts.entry(last));
  }
}

void check_range(const NamedIndex& slots, std::int64_t P) {
  if (!slots.readable()) return;
  for (std::int64_t n = 0; n < slots.entries.size(0); ++n) {
    if (slots[n] >= P) {
      throw InvalidArgument(slots.name,
                            "expected entries below " + sized("P", P) + ", got " + slots.entry(n));
    }
  }
}

/// Which sequence writes a slot, of which no more than `most` are written: a table of open addresses, at most
/// half full.
class Writers {
 public:
  explicit Writers(std::int64_t most)
      : bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most))) + 1),
        memory_((sizeof(Entry) / sizeof(float)) << bits_),
        entries_(reinterpret_cast<Entry*>(memory_.data())) {
    std::fill_n(entries_, std::size_t{1} << bits_, Entry{.slot = -1, .sequence = -1});
  }

  /// The sequence that writes the slot, or -1.
  std::int64_t of(std::int64_t slot) const { return at(slot).sequence; }

  void add(std::int64_t slot, std::int64_t sequence) { at(slot) = {slot, sequence}; }

 private:
  struct Entry {
    std::int64_t slot, sequence;
  };

  /// The slot's entry, or the free one that it would have.
  Entry& at(std::int64_t slot) const {
    constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
    const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
    std::uint64_t i = (static_cast<std::uint64_t>(slot) * kGoldenRatio) >> (64 - bits_);
    while (entries_[i].sequence >= 0 && entries_[i].slot != slot) i = (i + 1) & mask;
    return entries_[i];
  }

  int bits_;
  HeldScratch memory_;
  Entry* entries_;
};

/// Sequences run in any order, and in parallel: what one writes must not be another's.
void check_conflicts(const NamedIndex& read, const NamedIndex& write, bool in_place, std::int64_t P) {
  if (!read.readable() || !write.readable()) return;
  const std::int64_t N = read.entries.size(0);
  if (N < 2) return;
  Writers writers(std::min(N, P));
  for (std::int64_t n = 0; n < N; ++n) {
    if (read[n] < 0 || write[n] < 0) continue;
    if (const std::int64_t other = writers.of(write[n]); other >= 0) {
      throw InvalidArgument(write.name, "expected slots that one sequence alone writes, got " +
                                            write.entry(other) + " and " + write.entry(n));
    }
    writers.add(write[n], n);
  }
  if (!in_place || &read.entries == &write.entries) return;
  for (std::int64_t n = 0; n < N; ++n) {
    if (read[n] < 0) continue;
    if (const std::int64_t other = writers.of(read[n]); other >= 0 && other != n) {
      throw InvalidArgument(write.name, "expected slots that no other sequence reads, got " +
                                            write.entry(other) + " and " + read.entry(n));
    }
  }
}

/// Those of a call, where they can be read.
struct Contents {
  const TensorView &cu_seqlens, &state_indices, &state_write_indices;
};

void check_contents(const SequenceArguments& args, const Contents& contents, const AxisSizes& sizes) {
  check_starts({"cu_seqlens", contents.cu_seqlens}, sizes[Axis::T]);
  const NamedIndex read{"state_indices", contents.state_indices};
  const NamedIndex write{"state_write_indices", contents.state_write_indices};
  check_range(read, sizes[Axis::P]);
  check_range(write, sizes[Axis::P]);
  if (!args.final_state.defined()) return;
  // The table has seen to it that pools either are the same memory or share none.
  const bool in_place = args.initial_state.defined() && args.initial_state.data() == args.final_state.data();
  check_conflicts(read, write.entries.defined() ? write : read, in_place, sizes[Axis::P]);
}

// ---- on a device

bool is_on_device(const TensorView& index) { return index.defined() && !index.device().is_cpu(); }

/// The index over a copy of its memory on the host, which `memory` keeps.
TensorView copied(const TensorView& index, Stream stream, Tensor& memory) {
  if (!is_on_device(index)) return index;
  if (index.numel() == 0) return {nullptr, index.dtype(), index.shape()};
  const auto element = static_cast<std::int64_t>(size_of(index.dtype()));
  const TensorView::Extent extent = index.extent();
  const TensorView bytes(index.as<const std::byte>() + extent.begin, index.dtype(),
                         {(extent.end - extent.begin) / element}, index.device());
  memory = copy_to(bytes, Device{}, stream);
  return {memory.as<const std::byte>() - extent.begin, index.dtype(), index.shape(), index.strides()};
}

}  // namespace

void check_indices(const SequenceArguments& args, const AxisSizes& sizes) {
  check_starts_are_due(args, sizes);
  check_slots_are_due(args);
  const bool hidden = is_on_device(args.cu_seqlens) || is_on_device(args.state_indices) ||
                      is_on_device(args.state_write_indices);
  if (!hidden || !checks_device_indices() || is_capturing(args.device, args.stream))
    return check_contents(args, {args.cu_seqlens, args.state_indices, args.state_write_indices}, sizes);
  Tensor starts, read, write;  // the memory of the copies
  check_contents(args,
                 {copied(args.cu_seqlens, args.stream, starts), copied(args.state_indices, args.stream, read),
                  copied(args.state_write_indices, args.stream, write)},
                 sizes);
}

void clear_behind_sequences(const TensorView& tensor, const TensorView& cu_seqlens, Stream stream) {
  if (!cu_seqlens.defined() || !cu_seqlens.device().is_cpu()) return;
  const std::int64_t tokens = indices_of(cu_seqlens)[cu_seqlens.size(0) - 1], T = tensor.size(1);
  if (tokens < T) clear(tensor.slice(1, tokens, T - tokens), stream);
}

}  // namespace fla::common
