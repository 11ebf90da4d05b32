#include "tools/conformance/pooled_call.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "tools/cases/accuracy.h"
#include "tools/conformance/agreement.h"

namespace fla::conformance {
namespace {

using Writes = PoolWrites;

/// Slots in no order: those that are read first, then those that are free.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> slots(static_cast<std::size_t>(count));
  std::iota(slots.begin(), slots.end(), 0);
  cases::Random random(seed);
  for (std::int64_t i = count - 1; i > 0; --i) {
    std::swap(slots[static_cast<std::size_t>(i)], slots[static_cast<std::size_t>(random.between(0, i))]);
  }
  return slots;
}

std::vector<StateSlots> choose_slots(std::int64_t sequences, std::int64_t pool, const PoolKind& kind) {
  const std::vector<std::int64_t> slots = shuffled(pool, kind.seed);
  std::vector<StateSlots> chosen;
  for (std::int64_t n = 0; n < sequences; ++n) {
    const auto i = static_cast<std::size_t>(n);
    StateSlots one{slots[i], slots[i]};
    if (kind.writes == Writes::moved) {
      one.write = kind.skips && n % 4 == 2 ? -3 : slots[i + static_cast<std::size_t>(sequences)];
    }
    if (kind.skips && n % 3 == 1) one.read = -1 - n;
    chosen.push_back(one);
  }
  return chosen;
}

std::array<std::int64_t, 4> pool_shape(const TensorView& states, std::int64_t slots) {
  return {slots, states.size(1), states.size(2), states.size(3)};
}

LaidOut indices(const std::vector<StateSlots>& slots, std::int64_t StateSlots::*member, DType dtype) {
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(slots.size())};
  LaidOut made(shape, dtype);
  for (std::size_t n = 0; n < slots.size(); ++n) {
    if (dtype == DType::i32) {
      made.view().as<std::int32_t>()[n] = static_cast<std::int32_t>(slots[n].*member);
    } else {
      made.view().as<std::int64_t>()[n] = slots[n].*member;
    }
  }
  made.remember();
  return made;
}

bool is_zero(const TensorView& view) {
  bool zero = true;
  for_each_offset(view, [&](std::int64_t offset) { zero &= cases::element(view, offset) == 0; });
  return zero;
}

}  // namespace

template <RecurrenceArgs Args>
PooledCall<Args>::PooledCall(const Args& plain, const PoolKind& kind)
    : slots_(choose_slots(sizes_of(plain).N, 2 * sizes_of(plain).N + 3, kind)),
      out_(plain.v.shape(), plain.v.dtype()),
      pool_(pool_shape(plain.initial_state, 2 * sizes_of(plain).N + 3), plain.initial_state.dtype()),
      other_pool_(pool_.view().shape(), pool_.view().dtype()),
      reads_(indices(slots_, &StateSlots::read, kind.index_dtype)),
      writes_(indices(slots_, &StateSlots::write, kind.index_dtype)),
      args_(plain) {
  for (std::size_t n = 0; n < slots_.size(); ++n) {
    if (slots_[n].read < 0) continue;
    const std::vector<std::byte> state =
        bytes_of(plain.initial_state.slice(0, static_cast<std::int64_t>(n), 1));
    std::ranges::copy(state, pool_.view().slice(0, slots_[n].read, 1).as<std::byte>());
  }
  pool_.remember();
  args_.initial_state = pool_;
  args_.state_indices = reads_;
  args_.out = out_;
  args_.output_final_state = kind.writes != Writes::nowhere;
  if (kind.writes == Writes::moved) args_.state_write_indices = writes_;
  if (kind.writes == Writes::nowhere) return;
  args_.final_state = kind.writes == Writes::apart ? other_pool_.view() : pool_.view();
  before_ = bytes_of(args_.final_state);
}

template <RecurrenceArgs Args>
std::string PooledCall<Args>::wrong(const RecurrenceResult& result, const cases::Reference& plain) const {
  const RecurrenceSizes size = sizes_of(args_);
  const std::int64_t row = size.HV * size.V, state = size.HV * size.K * size.V;
  std::string text;
  if (result.o.data() != args_.out.data()) text += "did not write o into `out`; ";
  if (result.final_state.defined() != args_.final_state.defined())
    return text + "final_state is wrongly there; ";

  // The states of the sequences, in their order: what the plain call's reference has.
  cases::Reference expected = plain;
  const bool has_state = args_.final_state.defined();
  RecurrenceResult in_order{result.o, {}};
  if (has_state) {
    in_order.final_state = Tensor::zeros(pool_shape(args_.final_state, size.N), args_.final_state.dtype());
  }
  std::vector<bool> written(static_cast<std::size_t>(has_state ? args_.final_state.size(0) : 0), false);
  for (std::int64_t n = 0; n < size.N; ++n) {
    const auto [read, write] = slots_[static_cast<std::size_t>(n)];
    const Sequence tokens = tokens_of(args_, n);
    if (read < 0) {
      const TensorView o =
          result.o.view().slice(0, tokens.batch, 1).slice(1, tokens.begin, tokens.end - tokens.begin);
      if (!is_zero(o)) text += "sequence " + std::to_string(n) + " is skipped, but its o is not zero; ";
      const std::int64_t first = (tokens.batch * size.T + tokens.begin) * row;
      std::fill_n(expected.o.begin() + first, (tokens.end - tokens.begin) * row, 0.0);
    }
    if (!has_state) continue;
    if (read < 0 || write < 0) {
      std::fill_n(expected.final_state.begin() + n * state, state, 0.0);
      continue;
    }
    written[static_cast<std::size_t>(write)] = true;
    std::ranges::copy(bytes_of(result.final_state.view().slice(0, write, 1)),
                      in_order.final_state.view().slice(0, n, 1).as<std::byte>());
  }
  text += disagreement(in_order, expected, args_);

  const std::vector<std::byte> after = has_state ? bytes_of(result.final_state) : std::vector<std::byte>();
  const std::size_t slot_bytes = written.empty() ? 0 : after.size() / written.size();
  for (std::size_t slot = 0; slot < written.size(); ++slot) {
    if (written[slot]) continue;
    if (std::memcmp(&after[slot * slot_bytes], &before_[slot * slot_bytes], slot_bytes) != 0)
      text += "slot " + std::to_string(slot) + " was written, which no sequence names; ";
  }
  if (!reads_.intact() || !writes_.intact()) text += "wrote into the indices; ";
  if (!out_.intact_around() || !pool_.intact_around() || !other_pool_.intact_around())
    text += "wrote around an output; ";
  if (args_.final_state.data() != pool_.view().data() && !pool_.intact())
    text += "wrote into initial_state; ";
  return text;
}

#define FLA_OP(NAME, ARGS) template class PooledCall<ARGS>;
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::conformance
