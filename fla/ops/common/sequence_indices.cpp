#include "fla/ops/common/sequence_indices.h"

#include <algorithm>
#include <array>
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
  std::int64_t columns() const { return entries.rank() == 2 ? entries.size(1) : 1; }
  /// Row by row.
  std::int64_t operator[](std::int64_t i) const {
    return entries.rank() == 2 ? index_rows_of(entries)[i / columns()][i % columns()]
                               : indices_of(entries)[i];
  }
  std::string entry(std::int64_t i) const {
    const std::string at = entries.rank() == 2
                               ? std::to_string(i / columns()) + ", " + std::to_string(i % columns())
                               : std::to_string(i);
    return name + ("[" + at + "]=") + std::to_string((*this)[i]);
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

void check_slots_are_due(const SequenceArguments& args, const AxisSizes& sizes) {
  if (args.checkpoint_indices.defined() && !args.state_indices.defined()) {
    throw InvalidArgument("state_indices", "expected a tensor of shape [" + sized("N", sizes[Axis::N]) +
                                               "] with checkpoint_indices, got none");
  }
  if (args.num_accepted_tokens.defined() && !args.initial_state.defined())
    throw InvalidArgument("initial_state", "expected the pool that states are read from, got none");
  if (!args.state_indices.defined() || args.final_state.defined()) return;
  // What is written goes into the caller's pool: the other slots of one made here would hold nothing.
  for (const auto& [name, entries] : {NamedIndex{"state_write_indices", args.state_write_indices},
                                      NamedIndex{"checkpoint_indices", args.checkpoint_indices}}) {
    if (entries.defined()) {
      throw InvalidArgument("final_state",
                            "expected the pool that " + std::string(name) + " name slots of, got none");
    }
  }
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
  for (std::int64_t i = 0; i < slots.entries.numel(); ++i) {
    if (slots[i] >= P) {
      throw InvalidArgument(slots.name,
                            "expected entries below " + sized("P", P) + ", got " + slots.entry(i));
    }
  }
}

void check_counts(const NamedIndex& counts, std::int64_t C) {
  if (!counts.readable()) return;
  for (std::int64_t n = 0; n < counts.entries.size(0); ++n) {
    if (counts[n] < 0 || counts[n] > C) {
      throw InvalidArgument(counts.name,
                            "expected entries from 0 to " + sized("C", C) + ", got " + counts.entry(n));
    }
  }
}

/// An entry of an index that names a slot.
struct SlotEntry {
  const NamedIndex* index;
  std::int64_t i;

  std::int64_t slot() const { return (*index)[i]; }
  std::int64_t sequence() const { return i / index->columns(); }
  std::string text() const { return index->entry(i); }
};

/// Which entry has a slot written, of which no more than `most` are: a table of open addresses, at most half
/// full.
class Writers {
 public:
  explicit Writers(std::int64_t most)
      : bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most))) + 1),
        memory_((sizeof(SlotEntry) / sizeof(float)) << bits_),
        entries_(reinterpret_cast<SlotEntry*>(memory_.data())) {
    std::fill_n(entries_, std::size_t{1} << bits_, SlotEntry{.index = nullptr, .i = 0});
  }

  /// The entry that has the slot written, or one without an index.
  const SlotEntry& of(std::int64_t slot) const { return at(slot); }

  void add(const SlotEntry& entry) {
    SlotEntry& place = at(entry.slot());
    if (place.index != nullptr) {
      throw InvalidArgument(entry.index->name, "expected slots that are written once, got " + place.text() +
                                                   " and " + entry.text());
    }
    place = entry;
  }

 private:
  /// The slot's entry, or the free one that it would have.
  SlotEntry& at(std::int64_t slot) const {
    constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
    const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
    std::uint64_t i = (static_cast<std::uint64_t>(slot) * kGoldenRatio) >> (64 - bits_);
    while (entries_[i].index != nullptr && entries_[i].slot() != slot) i = (i + 1) & mask;
    return entries_[i];
  }

  int bits_;
  HeldScratch memory_;
  SlotEntry* entries_;
};

/// Those of a call, where they can be read.
struct Contents {
  NamedIndex starts, read, write, checkpoints, accepted, ring_begin, ring_end;
};

/// Sequences run in any order, and in parallel: what one writes must not be another's.
void check_conflicts(const SequenceArguments& args, const Contents& all, std::int64_t P) {
  const NamedIndex &read = all.read, &kept = all.checkpoints;
  // Where tokens are accepted, the last state has a slot of its own or none.
  const NamedIndex& write =
      args.state_write_indices.defined() || args.num_accepted_tokens.defined() ? all.write : read;
  if (!read.readable()) return;
  const std::int64_t N = read.entries.size(0), last = write.readable() ? N : 0,
                     checkpoints = kept.readable() ? kept.entries.numel() : 0;
  if (last + checkpoints < 2) return;
  Writers writers(std::min(last + checkpoints, P));
  const auto add_all = [&](const NamedIndex& index, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const SlotEntry entry{&index, i};
      if (entry.slot() >= 0 && read[entry.sequence()] >= 0) writers.add(entry);
    }
  };
  add_all(write, last);
  add_all(kept, checkpoints);
  if (&write == &read && checkpoints == 0) return;
  // The table has seen to it that pools either are the same memory or share none.
  const bool in_place = args.initial_state.defined() && args.initial_state.data() == args.final_state.data();
  for (std::int64_t n = 0; in_place && n < N; ++n) {
    if (read[n] < 0) continue;
    SlotEntry entry{&read, n};
    if (args.num_accepted_tokens.defined()) {
      if (!all.accepted.readable() || checkpoints == 0) return;
      if (all.accepted[n] > 0) entry = {&kept, n * kept.columns() + all.accepted[n] - 1};
      if (entry.slot() < 0) continue;
    }
    const SlotEntry& other = writers.of(entry.slot());
    if (other.index != nullptr && other.sequence() != n) {
      throw InvalidArgument(other.index->name, "expected slots that no other sequence reads, got " +
                                                   other.text() + " and " + entry.text());
    }
  }
}

/// Where a sequence goes on after a token, that token's state was kept.
void check_accepted(const Contents& all) {
  const NamedIndex &counts = all.accepted, &kept = all.checkpoints;
  if (!counts.readable() || !kept.readable() || !all.read.readable()) return;
  for (std::int64_t n = 0; n < counts.entries.size(0); ++n) {
    if (all.read[n] < 0 || counts[n] == 0) continue;
    if (const std::int64_t i = n * kept.columns() + counts[n] - 1; kept[i] < 0) {
      throw InvalidArgument(kept.name, "expected a slot where a sequence starts from it, got " +
                                           kept.entry(i) + " and " + counts.entry(n));
    }
  }
}

/// Rings have room for the tokens of the step.
void check_rings(const Contents& all, const AxisSizes& sizes) {
  const NamedIndex &begin = all.ring_begin, &end = all.ring_end;
  if (!begin.readable() || !end.readable()) return;
  const std::int64_t T = std::max<std::int64_t>(sizes[Axis::T], 0), most = sizes[Axis::L] - T;
  for (std::int64_t n = 0; n < begin.entries.size(0); ++n) {
    if (all.read.readable() && all.read[n] < 0) continue;
    if (begin[n] < 0)
      throw InvalidArgument(begin.name, "expected entries of at least 0, got " + begin.entry(n));
    if (end[n] < begin[n]) {
      throw InvalidArgument(end.name, "expected entries of at least ring_begin's, got " + end.entry(n) +
                                          " and " + begin.entry(n));
    }
    if (end[n] - begin[n] > most) {
      throw InvalidArgument(end.name, "expected at most " + std::to_string(most) + " tokens in a ring of " +
                                          sized("L", sizes[Axis::L]) + " before " + sized("T", T) +
                                          " more, got " + end.entry(n) + " and " + begin.entry(n));
    }
  }
}

void check_contents(const SequenceArguments& args, const Contents& all, const AxisSizes& sizes) {
  check_starts(all.starts, sizes[Axis::T]);
  check_rings(all, sizes);
  for (const NamedIndex* slots : {&all.read, &all.write, &all.checkpoints})
    check_range(*slots, sizes[Axis::P]);
  check_counts(all.accepted, sizes[Axis::C]);
  check_accepted(all);
  if (args.final_state.defined()) check_conflicts(args, all, sizes[Axis::P]);
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
  check_slots_are_due(args, sizes);
  std::array index{&args.cu_seqlens,
                   &args.state_indices,
                   &args.state_write_indices,
                   &args.checkpoint_indices,
                   &args.num_accepted_tokens,
                   &args.ring_begin,
                   &args.ring_end};
  const auto check = [&] {
    check_contents(args,
                   {{"cu_seqlens", *index[0]},
                    {"state_indices", *index[1]},
                    {"state_write_indices", *index[2]},
                    {"checkpoint_indices", *index[3]},
                    {"num_accepted_tokens", *index[4]},
                    {"ring_begin", *index[5]},
                    {"ring_end", *index[6]}},
                   sizes);
  };
  const bool hidden = std::ranges::any_of(index, [](const TensorView* each) { return is_on_device(*each); });
  if (!hidden || !checks_device_indices() || is_capturing(args.device, args.stream)) return check();
  std::array<Tensor, index.size()> memory;
  std::array<TensorView, index.size()> copies;
  for (std::size_t i = 0; i < index.size(); ++i) {
    copies[i] = copied(*index[i], args.stream, memory[i]);
    index[i] = &copies[i];
  }
  check();
}

void clear_behind_sequences(const TensorView& tensor, const TensorView& cu_seqlens, Stream stream) {
  if (!cu_seqlens.defined() || !cu_seqlens.device().is_cpu()) return;
  const std::int64_t tokens = indices_of(cu_seqlens)[cu_seqlens.size(0) - 1], T = tensor.size(1);
  if (tokens < T) clear(tensor.slice(1, tokens, T - tokens), stream);
}

}  // namespace fla::common
