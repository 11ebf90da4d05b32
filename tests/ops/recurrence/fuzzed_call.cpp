#include "tests/ops/recurrence/fuzzed_call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fla/core/errors.h"
#include "tools/cases/accuracy.h"

namespace fla_test {

using fla::Argument;
using fla::ArgumentKind;
using fla::Axis;
using fla::DType;
using fla::TensorView;
using fla::cases::Random;
using fla::cases::store;
using fla::conformance::LaidOut;
using fla::conformance::Layout;

namespace {

constexpr std::array kAllTypes{DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64};

/// Mostly tiny: what goes wrong with sizes goes wrong with small ones, a hundred times faster.
std::int64_t channels(Random& random) {
  if (random.chance(0.03f)) return random.between(33, 130);
  return random.chance(0.3f) ? random.between(13, 33) : random.between(1, 12);
}

template <class Args>
TensorView& tensor_of(const Argument& argument, Args& args) {
  return argument.tensor(static_cast<void*>(&args));
}

}  // namespace

template <fla::RecurrenceArgs Args>
FuzzedCall<Args>::FuzzedCall(Random& random) : random_(random) {
  const bool packed = random_.chance(0.35f);
  sizes_[Axis::B] = packed ? 1 : random_.chance(0.02f) ? 0 : random_.between(1, 3);
  sizes_[Axis::T] = random_.chance(0.05f)  ? 0
                    : random_.chance(0.1f) ? random_.between(20, 70)
                                           : random_.between(1, 12);
  sizes_[Axis::H] = random_.between(1, 2);
  sizes_[Axis::HV] = sizes_[Axis::H] * random_.between(1, 2);
  sizes_[Axis::K] = channels(random_);
  sizes_[Axis::V] = channels(random_);
  sizes_[Axis::N] = packed ? random_.between(1, 4) : sizes_[Axis::B];
  const bool pooled = random_.chance(0.3f);
  sizes_[Axis::C] = random_.between(0, 4);
  sizes_[Axis::P] =
      pooled ? random_.between(0, (2 + sizes_[Axis::C]) * sizes_[Axis::N] + 2) : sizes_[Axis::N];
  strides_ = random_.chance(0.4f)   ? Strides::none
             : random_.chance(0.5f) ? Strides::between_rows
                                    : Strides::any;
  strong_decay_ = random_.chance(0.2f);
  inputs_.reserve(Args::arguments().size());
  choose_options();
  if (pooled) choose_slots();
  place_inputs();
  if (!packed) args_.cu_seqlens = {};
  if (!pooled) args_.state_indices = {};
  if (!pooled || random_.chance(0.5f)) args_.state_write_indices = {};
  if (!pooled || !args_.checkpoint_every || random_.chance(0.5f)) args_.checkpoint_indices = {};
  const bool reads = args_.checkpoint_indices.defined() && args_.initial_state.defined();
  if (!reads || random_.chance(0.5f)) args_.num_accepted_tokens = {};
  if (args_.num_accepted_tokens.defined()) args_.checkpoint_every = 1;
  choose_outputs();
  mend();
}

template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::choose_options() {
  for (const Argument& argument : Args::arguments()) {
    if (argument.kind == ArgumentKind::flag) argument.flag(&args_) = random_.chance(0.4f);
    if (argument.kind == ArgumentKind::number && random_.chance(0.5f)) {
      argument.number(static_cast<void*>(&args_)) = 6 * random_.uniform() - 5;
    }
    // Few: only original kernels take checkpoints.
    if (argument.kind == ArgumentKind::integer && random_.chance(0.1f))
      argument.integer(static_cast<void*>(&args_)) = random_.between(1, 20);
  }
  if constexpr (requires { args_.layer_idx; }) {
    const std::int64_t layers = random_.between(1, 7);
    args_.num_layers = layers;
    args_.layer_idx = random_.between(0, layers - 1);
  }
}

template <fla::RecurrenceArgs Args>
Layout FuzzedCall<Args>::any_layout(int rank) {
  if (strides_ == Strides::none || random_.chance(0.3f)) return {};
  Layout layout = Layout::random(rank, random_);
  if (strides_ == Strides::any || rank == 0) return layout;
  // Channels stay neighbours, which is what fast kernels ask for.
  layout.order = Layout{}.order;
  layout.gaps[static_cast<std::size_t>(rank - 1)] = 0;
  layout.reversed[static_cast<std::size_t>(rank - 1)] = false;
  return layout;
}

/// Right whether the pool is updated in place or not, and with state_write_indices or without them: a slot is
/// read by one sequence, and written by that one or one that nobody reads.
template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::choose_slots() {
  std::vector<std::int64_t> free(static_cast<std::size_t>(sizes_[Axis::P]));
  for (std::size_t i = 0; i < free.size(); ++i) free[i] = static_cast<std::int64_t>(i);
  const auto take = [&]() -> std::int64_t {
    if (free.empty()) return -1;
    const auto last = static_cast<std::int64_t>(free.size()) - 1;
    std::swap(free.back(), free[static_cast<std::size_t>(random_.between(0, last))]);
    const std::int64_t slot = free.back();
    free.pop_back();
    return slot;
  };
  const auto negative = [&] { return -random_.between(1, 1000); };
  slots_.resize(static_cast<std::size_t>(sizes_[Axis::N]));
  for (fla::StateSlots& slots : slots_) slots.read = random_.chance(0.2f) ? negative() : take();
  for (fla::StateSlots& slots : slots_)
    slots.write = random_.chance(0.2f) ? negative() : random_.chance(0.3f) ? slots.read : take();
  for (std::int64_t n = 0; n < sizes_[Axis::N]; ++n) {
    accepted_.push_back(0);
    for (std::int64_t i = 0; i < sizes_[Axis::C]; ++i) {
      kept_.push_back(random_.chance(0.2f) ? negative() : take());
      if (kept_.back() >= 0 && random_.chance(0.3f)) accepted_.back() = i + 1;
    }
  }
}

template <fla::RecurrenceArgs Args>
DType FuzzedCall<Args>::any_dtype(fla::DTypeSet types) {
  for (;;) {
    const DType dtype = kAllTypes[static_cast<std::size_t>(random_.between(0, kAllTypes.size() - 1))];
    if (types.contains(dtype)) return dtype;
  }
}

template <fla::RecurrenceArgs Args>
std::vector<std::int64_t> FuzzedCall<Args>::shape_of(const Argument& argument) {
  const bool either = argument.shape.second.rank > 0 && argument.shape.flag.empty();
  const fla::ShapeRule& rule = either ? (random_.chance(0.5f) ? argument.shape.first : argument.shape.second)
                                      : fla::rule_in_force(Args::arguments(), argument, &args_);
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rule.rank; ++i) shape.push_back(rule.dims[static_cast<std::size_t>(i)].in(sizes_));
  return shape;
}

template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::fill(const Argument& argument, const TensorView& tensor) {
  if (argument.names_slots()) {
    std::size_t i = 0;
    fla::conformance::for_each_offset(tensor, [&](std::int64_t offset) {
      if (slots_.empty()) return;  // without a pool it is taken away again
      const std::int64_t entry = argument.name == "state_indices"         ? slots_[i].read
                                 : argument.name == "state_write_indices" ? slots_[i].write
                                 : argument.name == "checkpoint_indices"  ? kept_[i]
                                                                          : accepted_[i];
      store(tensor, offset, static_cast<double>(entry));
      ++i;
    });
    return;
  }
  if (argument.kind == ArgumentKind::index) {
    std::vector<std::int64_t> starts{0, sizes_[Axis::T]};
    while (static_cast<std::int64_t>(starts.size()) < tensor.size(0))
      starts.push_back(random_.between(0, sizes_[Axis::T]));
    std::ranges::sort(starts);
    for (std::int64_t i = 0; i < tensor.size(0); ++i) {
      store(tensor, i * tensor.stride(0), static_cast<double>(starts[static_cast<std::size_t>(i)]));
    }
    return;
  }
  // Rows of about unit length, so that the recurrence does not blow up; log-decays are negative.
  const double width =
      tensor.rank() == 0 ? 1 : static_cast<double>(std::max<std::int64_t>(tensor.size(tensor.rank() - 1), 1));
  const fla::recurrence::Arguments all = fla::recurrence::arguments_of(args_);
  const bool decay = (argument.name == "g" && !all.use_gate_in_kernel) || argument.name == "g_gamma";
  // Outputs that are divided by sums of products: a sum of about 0 says nothing.
  const bool key = argument.name == "q" || argument.name == "k", positive = decay || (all.normalize && key);
  const bool pair = argument.name == "a" || argument.name == "b";  // of less than that together
  const double size = decay ? (strong_decay_ ? -90 : -1) : (pair ? 0.7 : 1.5) / std::sqrt(width);
  fla::conformance::for_each_offset(tensor, [&](std::int64_t offset) {
    const double uniform = static_cast<double>(random_.uniform());
    store(tensor, offset, size * (positive ? uniform : 2 * uniform - 1));
  });
}

template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::place_inputs() {
  for (const Argument& argument : Args::arguments()) {
    const bool input = argument.kind == ArgumentKind::tensor || argument.kind == ArgumentKind::index;
    if (!input) continue;
    bool there =
        argument.need == fla::Need::required || argument.kind == ArgumentKind::index || random_.chance(0.6f);
    // One of the two, and the second where the first is not.
    if constexpr (requires { args_.g_gamma; }) {
      if (argument.name == "g_gamma") there = !args_.g.defined();
    }
    if (!there) continue;
    place_input(argument);
  }
}

template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::place_input(const Argument& argument) {
  const std::vector<std::int64_t> shape = shape_of(argument);
  const DType dtype = any_dtype(argument.dtypes);
  LaidOut placed(shape, dtype, any_layout(static_cast<int>(shape.size())));
  fill(argument, placed);
  placed.remember();
  tensor_of(argument, args_) = placed.view();
  inputs_.push_back(std::move(placed));
}

/// Options that do not go together are told by the validation itself: it names the argument, which is given
/// another value, or a value at all, until the call is right.
template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::mend() {
  for (;;) {
    try {
      fla::validate_arguments(copy().args);
      return;
    } catch (const fla::InvalidArgument& error) {
      const Argument& argument = *fla::find_argument(Args::arguments(), error.argument());
      if (argument.kind == ArgumentKind::flag) {
        argument.flag(&args_) = true;
      } else if (argument.kind == ArgumentKind::number) {
        argument.number(static_cast<void*>(&args_)) = -5 * (1 - random_.uniform());
      } else if (argument.kind == ArgumentKind::output) {
        choose_output(argument);
      } else if (argument.names_slots()) {  // of nothing so far
        choose_output(*fla::find_argument(Args::arguments(), "final_state"));
      } else {
        place_input(argument);
      }
    }
  }
}

template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::choose_outputs() {
  for (const Argument& argument : Args::arguments()) {
    if (argument.kind != ArgumentKind::output) continue;
    const Argument* needed = fla::find_argument(Args::arguments(), argument.needs);
    const bool in_pool = argument.name == "checkpoints" && args_.checkpoint_indices.defined();
    if (!in_pool && (needed != nullptr ? needed->given(&args_) : random_.chance(0.5f)))
      choose_output(argument);
  }
}

template <fla::RecurrenceArgs Args>
void FuzzedCall<Args>::choose_output(const Argument& argument) {
  const Argument* before = fla::find_argument(Args::arguments(), argument.in_place_of);
  const bool in_place = before != nullptr && before->tensor(&args_).defined() && random_.chance(0.4f);
  const DType dtype = argument.name == "out" ? args_.v.dtype() : any_dtype(argument.dtypes);
  outputs_.push_back({&argument, dtype, any_layout(argument.shape.first.rank), in_place});
}

template <fla::RecurrenceArgs Args>
typename FuzzedCall<Args>::Copy FuzzedCall<Args>::copy() const {
  Copy made{args_, {}};
  for (const Output& output : outputs_) {
    TensorView& place = tensor_of(*output.argument, made.args);
    if (output.in_place) {
      TensorView& before =
          tensor_of(*fla::find_argument(Args::arguments(), output.argument->in_place_of), made.args);
      made.outputs.push_back(LaidOut::copy_of(before, output.layout));
      before = place = made.outputs.back().view();
      continue;
    }
    const fla::ShapeRule& rule = fla::rule_in_force(Args::arguments(), *output.argument, &args_);
    std::vector<std::int64_t> shape;
    for (int i = 0; i < rule.rank; ++i) shape.push_back(rule.dims[static_cast<std::size_t>(i)].in(sizes_));
    made.outputs.emplace_back(shape, output.dtype, output.layout);
    place = made.outputs.back().view();
    const bool pool = args_.state_indices.defined() && rule.dims[0].axis == Axis::P;
    if (!pool && rule.dims[1].axis != Axis::C) continue;
    // Slots and checkpoints that are not written keep what they hold, which is compared with the rest.
    fla::conformance::for_each_offset(place, [&](std::int64_t offset) { store(place, offset, 0.125); });
    made.outputs.back().remember();
  }
  return made;
}

template <fla::RecurrenceArgs Args>
bool FuzzedCall<Args>::inputs_intact() const {
  return std::ranges::all_of(inputs_, [](const LaidOut& input) { return input.intact(); });
}

template <fla::RecurrenceArgs Args>
typename FuzzedCall<Args>::Spoiled FuzzedCall<Args>::spoil(Copy& call, Random& random) {
  const fla::ArgumentTable table = Args::arguments();
  const Argument& argument =
      table[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(table.size()) - 1))];
  const std::string name(argument.name);
  if (argument.kind == ArgumentKind::flag) {
    if (argument.needs.empty()) return {};
    argument.flag(&call.args) = true;
    fla::find_argument(table, argument.needs)->flag(&call.args) = false;
    return {std::string(argument.needs), "needed by " + name};
  }
  if (argument.kind == ArgumentKind::number) {
    argument.number(static_cast<void*>(&call.args)) = random.chance(0.5f)
                                                          ? std::numeric_limits<float>::quiet_NaN()
                                                          : std::numeric_limits<float>::infinity();
    return {name, "not finite"};
  }
  if (argument.kind == ArgumentKind::integer) {
    std::optional<std::int64_t>& integer = argument.integer(static_cast<void*>(&call.args));
    if (!integer) return {};
    integer = -random.between(1, 1000);
    return {name, "negative"};
  }

  TensorView& tensor = tensor_of(argument, call.args);
  const bool first = &argument == &table.front();
  const auto with_shape = [&](std::vector<std::int64_t> shape) {
    tensor = TensorView(tensor.data(), tensor.dtype(), shape, tensor.device());
  };
  if (!tensor.defined()) return {};
  switch (random.between(0, 7)) {
    case 0:
      if (argument.need != fla::Need::required) return {};
      tensor = {};
      return {name, "absent"};
    case 1:
      if (tensor.numel() == 0) return {};
      tensor = TensorView(nullptr, tensor.dtype(), tensor.shape());
      return {name, "null"};
    case 2: {
      DType wrong = kAllTypes[static_cast<std::size_t>(random.between(0, kAllTypes.size() - 1))];
      if (argument.dtypes.contains(wrong)) return {};
      tensor = TensorView(tensor.data(), wrong, tensor.shape(), tensor.strides());
      return {name, "dtype"};
    }
    case 3: {
      if (first) return {};  // every other tensor would be on the wrong device
      tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), tensor.strides(),
                          {fla::DeviceType::cuda, 0});
      return {name, "device"};
    }
    case 4: {
      std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
      const int ranks = std::max(argument.shape.first.rank, argument.shape.second.rank);
      while (static_cast<int>(shape.size()) <= ranks && shape.size() < TensorView::kMaxRank)
        shape.push_back(1);
      if (static_cast<int>(shape.size()) <= ranks) shape.pop_back();  // no tensor has more
      with_shape(shape);
      return {name, "rank"};
    }
    case 5: {
      // An axis that an argument before it has measured; the first to have it sets it for all.
      if (argument.kind == ArgumentKind::index) return {};
      const fla::ShapeRule& rule = fla::rule_in_force(table, argument, &call.args);
      const int at = static_cast<int>(random.between(0, rule.rank - 1));
      const Axis axis = rule.dims[static_cast<std::size_t>(at)].axis;
      const bool sets = first || (name == "v" && (axis == Axis::HV || axis == Axis::V)) || axis == Axis::C ||
                        (axis == Axis::P && call.args.state_indices.defined() &&
                         (name == "initial_state" || !call.args.initial_state.defined()));
      if (sets) return {};
      std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
      shape[static_cast<std::size_t>(at)] += 1;
      with_shape(shape);
      return {name, "size of axis " + std::to_string(at)};
    }
    case 6: {
      if (argument.kind != ArgumentKind::output || tensor.numel() == 0) return {};
      for (int axis = 0; axis < tensor.rank(); ++axis) {
        if (tensor.size(axis) < 2) continue;
        std::vector<std::int64_t> strides(tensor.strides().begin(), tensor.strides().end());
        strides[static_cast<std::size_t>(axis)] = 0;
        tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), strides);
        return {name, "stride 0"};
      }
      return {};
    }
    default: {
      if (argument.kind == ArgumentKind::output) {
        const fla::recurrence::Arguments all = fla::recurrence::arguments_of(call.args);
        const TensorView& input = random.chance(0.5f) || !all.beta.defined() ? all.q : all.beta;
        if (tensor.numel() == 0 || input.numel() == 0) return {};
        tensor = TensorView(input.data(), tensor.dtype(), tensor.shape());
        return {name, "overlap"};
      }
      if (argument.kind == ArgumentKind::index) {
        // In memory of its own: the call's other copies read the same starts.
        call.outputs.push_back(LaidOut::copy_of(tensor));
        tensor = call.outputs.back().view();
        if (argument.names_slots()) {
          if (tensor.numel() == 0) return {};
          const TensorView& states =
              call.args.initial_state.defined() ? call.args.initial_state : call.args.final_state;
          // Behind the pool, and more than there are checkpoints.
          store(tensor, random.between(0, tensor.numel() - 1),
                static_cast<double>(states.size(0) + random.between(5, 9)));
          call.outputs.back().remember();
          return {name, "an entry that is too large"};
        }
        const bool last = random.chance(0.5f);
        store(tensor, last ? tensor.size(0) - 1 : 0,
              last ? static_cast<double>(call.args.q.size(1) + 1) : -1.0);
        call.outputs.back().remember();
        return {name, last ? "end" : "start"};
      }
      return {};
    }
  }
}

#define FLA_OP(NAME, ARGS) template class FuzzedCall<fla::ARGS>;
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla_test
