#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fla/ops/ops.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"
#include "tools/cases/random_case.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {

struct WalkSpec {
  std::int64_t L = 8, T = 1, steps = 30;
  bool strided = false;  ///< rings and the pool lie with gaps, their axes in another order
  DType indices = DType::i64;
  std::uint64_t seed = 1;
};

/// A server's way through some sequences: steps of T tokens over rings, of which any number is accepted. The
/// tokens of a step that are dropped are others than those that come in their place. Each step stands beside
/// a plain one, which starts from the state that was accepted, in f32.
template <RecurrenceArgs Args>
class RingWalk {
 public:
  using Replay = typename Args::Replay;
  using Fold = typename Args::Fold;
  using Spec = cases::CaseSpec<Args>;

  /// Of the calls' B sequences, each as long as they say.
  RingWalk(Spec calls, const WalkSpec& walk) : walk_(walk), spec_(std::move(calls)), random_(walk.seed) {
    spec_.initial_state = true;
    spec_.options.output_final_state = false;
    if (spec_.HV == 0) spec_.HV = spec_.H;
    made_ = cases::make_case(spec_);
    const Args& args = made_.args;
    P_ = spec_.B + 2;
    pool_ = memory(args.initial_state.dtype(), with(P_, args.initial_state.shape()));
    shadow_ = Tensor::empty(args.initial_state.shape(), DType::f32);
    for (std::int64_t n = 0; n < spec_.B; ++n) {
      slots_.push_back(P_ - 1 - n);
      copy(args.initial_state.slice(0, n, 1), pool_.back().view().slice(0, slots_.back(), 1));
      copy(args.initial_state.slice(0, n, 1), shadow_.view().slice(0, n, 1));
    }
    const auto ring = [&](DType dtype, std::vector<std::int64_t> shape) {
      shape[0] = P_, shape[1] = walk_.L;
      return memory(dtype, shape);
    };
    const auto like = [&](const TensorView& tokens) {
      return ring(tokens.dtype(), {tokens.shape().begin(), tokens.shape().end()});
    };
    const std::vector<std::int64_t> values(args.v.shape().begin(), args.v.shape().end());
    ring_k_ = like(args.k), ring_u_ = ring(DType::f32, values);
    if constexpr (requires { args.g; }) {
      if (args.g.defined()) ring_g_ = like(args.g);
    }
    if constexpr (requires { args.b; }) ring_b_ = like(args.b), ring_w_ = ring(DType::f32, values);
    cursors_.resize(slots_.size());
  }

  /// Says where a step's outputs are further than `tolerance` from the plain step's, a state that is folded
  /// further than `state_tolerance`, or what else was written; empty where all is right.
  template <class Step, class Folds>
  std::string run(Step&& step, Folds&& fold, double tolerance, double state_tolerance) {
    for (std::int64_t i = 0; i < walk_.steps; ++i) {
      const std::string wrong = run_step(step, tolerance, state_tolerance);
      if (!wrong.empty()) return "step " + std::to_string(i) + ": " + wrong;
      ++step_;
    }
    Fold args = options<Fold>();
    const Indices indices = indices_of(slots_);
    args.state_indices = indices.slots, args.ring_begin = indices.begin, args.ring_end = indices.end;
    fold(args);
    for (std::size_t n = 0; n < slots_.size(); ++n) {
      cursors_[n].begin = cursors_[n].end;
      if (std::string wrong = wrong_state(n, state_tolerance); !wrong.empty()) return "fold: " + wrong;
    }
    return folded_ ? wrong_memory() : "the walk is too short for a fold";
  }

 private:
  using Memory = std::vector<LaidOut>;
  struct Indices {
    Tensor slots, begin, end;
  };

  static std::vector<std::int64_t> with(std::int64_t first, std::span<const std::int64_t> shape) {
    std::vector<std::int64_t> all(shape.begin(), shape.end());
    all[0] = first;
    return all;
  }

  Memory memory(DType dtype, const std::vector<std::int64_t>& shape) const {
    const Layout layout = walk_.strided ? Layout::turned(static_cast<int>(shape.size())) : Layout();
    return {LaidOut(shape, dtype, layout)};
  }

  static TensorView view(const Memory& memory) {
    return memory.empty() ? TensorView() : memory.front().view();
  }

  /// Element by element, whatever the dtypes and strides are.
  static void copy(const TensorView& from, const TensorView& to) {
    std::vector<double> elements;
    cases::for_each_offset(from,
                           [&](std::int64_t offset) { elements.push_back(cases::element(from, offset)); });
    std::size_t i = 0;
    cases::for_each_offset(to, [&](std::int64_t offset) { cases::store(to, offset, elements[i++]); });
  }

  Indices indices_of(const std::vector<std::int64_t>& slots) const {
    const auto index = [&](auto&& entry) {
      const auto N = static_cast<std::int64_t>(slots.size());
      Tensor made = Tensor::empty({N}, walk_.indices);
      for (std::int64_t n = 0; n < N; ++n) {
        const std::int64_t value = entry(static_cast<std::size_t>(n));
        if (walk_.indices == DType::i64) {
          made.as<std::int64_t>()[n] = value;
        } else {
          made.as<std::int32_t>()[n] = static_cast<std::int32_t>(value);
        }
      }
      return made;
    };
    return {index([&](std::size_t n) { return slots[n]; }),
            index([&](std::size_t n) { return cursors_[n].begin; }),
            index([&](std::size_t n) { return cursors_[n].end; })};
  }

  /// What two structs of the op have in common.
  template <class To>
  To options() const {
    To to;
    for (const Argument& argument : To::arguments()) {
      const Argument* const from = find_argument(Args::arguments(), argument.name);
      if (from == nullptr || from->kind != argument.kind || argument.kind == ArgumentKind::index) continue;
      const Args& args = made_.args;
      if (argument.is_tensor()) {
        argument.tensor(static_cast<void*>(&to)) = from->tensor(&args);
      } else if (argument.kind == ArgumentKind::flag) {
        argument.flag(static_cast<void*>(&to)) = from->flag(&args);
      } else if (argument.kind == ArgumentKind::number) {
        argument.number(static_cast<void*>(&to)) = from->number(&args);
      } else {
        argument.integer(static_cast<void*>(&to)) = from->integer(&args);
      }
    }
    to.state = view(pool_), to.ring_k = view(ring_k_), to.ring_u = view(ring_u_);
    if constexpr (requires { to.ring_g; }) to.ring_g = view(ring_g_);
    if constexpr (requires { to.ring_b; }) to.ring_b = view(ring_b_), to.ring_w = view(ring_w_);
    return to;
  }

  /// Sequence n's tokens from its last accepted one on; others from number m on.
  template <class Call>
  void take_tokens(Call& call, const std::vector<std::int64_t>& accepted, std::vector<Tensor>& memory) const {
    for (const Argument& argument : Call::arguments()) {
      if (argument.kind != ArgumentKind::tensor || argument.shape.first.dims[1].axis != Axis::T) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&call));
      if (!tensor.defined()) continue;
      std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
      shape[1] = walk_.T;
      memory.push_back(Tensor::empty(shape, tensor.dtype()));
      for (std::int64_t n = 0; n < spec_.B; ++n) {
        for (std::int64_t t = 0; t < walk_.T; ++t) {
          const std::int64_t other = t < accepted[static_cast<std::size_t>(n)] ? 0 : 5;
          const std::int64_t token = (cursors_[static_cast<std::size_t>(n)].end + t + other) % spec_.T;
          copy(tensor.slice(0, n, 1).slice(1, token, 1), memory.back().view().slice(0, n, 1).slice(1, t, 1));
        }
      }
      tensor = memory.back();
    }
  }

  template <class Run>
  std::string run_step(Run& step, double tolerance, double state_tolerance) {
    std::vector<std::int64_t> accepted, slots = slots_;
    for (std::size_t n = 0; n < slots.size(); ++n)
      accepted.push_back(walk_.T == 1 ? random_.chance(0.9f) : random_.between(0, walk_.T));
    if (step_ % 7 == 3) slots.back() = -1, accepted.back() = 0;

    std::vector<Tensor> memory;
    Args plain = made_.args;
    take_tokens(plain, accepted, memory);
    plain.initial_state = shadow_;
    std::vector<std::int64_t> shape = with(spec_.B, shadow_.shape());
    shape.insert(shape.begin() + 1, walk_.T);
    const Tensor states = Tensor::empty(shape, DType::f32);
    plain.checkpoint_every = 1, plain.checkpoints = states;
    const RecurrenceResult expected = cases::Functions<Args>::original_recurrent(plain);

    Replay args = options<Replay>();
    take_tokens(args, accepted, memory);
    const Indices indices = indices_of(slots);
    args.state_indices = indices.slots, args.ring_begin = indices.begin, args.ring_end = indices.end;
    const LaidOut before = LaidOut::copy_of(args.state);
    const ReplayResult result = step(std::as_const(args));

    for (std::size_t n = 0; n < slots.size(); ++n) {
      const auto row = static_cast<std::int64_t>(n);
      const std::string which = "sequence " + std::to_string(n) + " with a ring of " +
                                std::to_string(cursors_[n].end - cursors_[n].begin) + ": ";
      const TensorView o = result.o.view().slice(0, row, 1);
      if (slots[n] < 0) {
        const std::vector<double> zeros(static_cast<std::size_t>(o.numel()));
        if (cases::relative_error(o, zeros) != 0) return which + "is skipped and has outputs";
        continue;
      }
      const double error = cases::relative_error(o, expected.o.view().slice(0, row, 1));
      if (!(error <= tolerance)) return which + "o is off by " + std::to_string(error);
      const RingCursor next = next_cursor(cursors_[n], walk_.T, accepted[n], walk_.L);
      if (next.begin != cursors_[n].begin) {
        folded_ = true;
        if (std::string wrong = wrong_state(n, state_tolerance); !wrong.empty()) return which + wrong;
      } else if (!same_bytes(view(pool_).slice(0, slots[n], 1), before.view().slice(0, slots[n], 1))) {
        return which + "wrote a state without a fold";
      }
      cursors_[n] = next;
      if (accepted[n] > 0) {
        const TensorView all = states.view().slice(0, row, 1).slice(1, accepted[n] - 1, 1);
        copy(all, shadow_.view().slice(0, row, 1));
      }
    }
    return "";
  }

  /// Where the state is not that of the tokens before this step, which the shadow has.
  std::string wrong_state(std::size_t n, double tolerance) const {
    const double error = cases::relative_error(view(pool_).slice(0, slots_[n], 1),
                                               shadow_.view().slice(0, static_cast<std::int64_t>(n), 1));
    return error <= tolerance ? "" : "the folded state is off by " + std::to_string(error);
  }

  /// The first two slots belong to no sequence.
  std::string wrong_memory() const {
    for (const Memory* memory : {&pool_, &ring_k_, &ring_u_, &ring_g_, &ring_b_, &ring_w_}) {
      if (memory->empty()) continue;
      if (!memory->front().intact_around()) return "wrote around a tensor";
      const std::vector<std::byte> bytes = bytes_of(view(*memory).slice(0, 0, 2));
      if (!std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0xff}; }))
        return "wrote a slot that no sequence has";
    }
    return "";
  }

  WalkSpec walk_;
  Spec spec_;
  cases::Random random_;
  cases::RandomCase<Args> made_;
  std::int64_t P_ = 0;
  std::vector<std::int64_t> slots_;
  Memory pool_, ring_k_, ring_u_, ring_g_, ring_b_, ring_w_;
  Tensor shadow_;
  std::vector<RingCursor> cursors_;
  std::int64_t step_ = 0;
  bool folded_ = false;
};

/// Calls of an op with every option that it has, of which replay is to be tried.
template <class Args>
std::vector<cases::CaseSpec<Args>> specs_with_options(const cases::CaseSpec<Args>& plain) {
  std::vector<cases::CaseSpec<Args>> specs{plain};
  specs.push_back(plain);
  specs.back().options.state_v_first = true;
  for (const bool bounded : {false, true}) {
    if constexpr (requires(Args args) { args.use_gate_in_kernel; }) {
      specs.push_back(plain);
      Args& options = specs.back().options;
      options.use_qk_l2norm_in_kernel = options.use_gate_in_kernel = options.use_beta_sigmoid_in_kernel =
          true;
      options.allow_neg_eigval = bounded;
      if (bounded) options.lower_bound = -5;
    }
  }
  if constexpr (requires(Args args) { args.normalize; }) {
    specs.push_back(plain);
    specs.back().options.normalize = true;
  }
  if constexpr (requires(Args args) { args.g_gamma; }) {
    specs.push_back(plain);
    specs.back().head_gates = true;
  }
  return specs;
}

}  // namespace fla::conformance
