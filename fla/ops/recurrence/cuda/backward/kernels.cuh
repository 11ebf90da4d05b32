#pragma once

#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/recurrence/cuda/backward/carry.cuh"
#include "fla/ops/recurrence/cuda/backward/gradients.cuh"
#include "fla/ops/recurrence/cuda/backward/launch.h"
#include "fla/ops/recurrence/cuda/backward/low_rank.cuh"
#include "fla/ops/recurrence/cuda/backward/rows.cuh"

namespace fla::cuda {

/// The launches of one call, one after another; none after one that failed.
template <int KP, Rule rule>
class BackwardLaunches {
 public:
  BackwardLaunches(const BackwardCall& back, void* memory, cudaStream_t stream, std::int64_t window)
      : back_(back),
        call_(back.call),
        workspace_(call_, static_cast<char*>(memory), window),
        stream_(stream) {}

  cudaError_t run() {
    const std::int64_t all = chunk_places<Workspace::C>(call_);
    const std::int64_t windows = std::max<std::int64_t>(1, Workspace::windows(all, workspace_.places));
    const std::int64_t heads = call_.N * call_.HV;
    launch<clear<kThreads>>((heads + kThreads - 1) / kThreads, kThreads, workspace_.largest, heads);
    launch<find_largest<KP, rule>>(all * call_.HV + (back_.dht.data ? heads : 0), kThreads, back_, workspace_,
                                   all);
    for (std::int64_t window = 0; needs_states() && window < windows - 1; ++window) {
      prepare(window, all);
      go_forward(false);
    }
    for (std::int64_t window = windows - 1; window >= 0; --window) {
      prepare(window, all);
      if (needs_states()) go_forward(true);
      go_back();
      if (!asks_for_keys()) continue;
      if constexpr (!kLowRank) {
        launch<chunk_gradients<KP, rule>, sizeof(GradientMemory<KP>)>(places_ * call_.HV, kThreads, back_,
                                                                      workspace_);
        if (asks_for_sums())
          launch<add_parts<KP>>(call_.HV, kSumThreads, back_, workspace_.parts, 2 * KP, workspace_.sums,
                                places_, window == windows - 1, window == 0);
      }
      store_all_rows();
    }
    return error_;
  }

 private:
  using Workspace = BackwardWorkspace<KP, rule>;
  static constexpr bool kLowRank = rule == Rule::low_rank;

  template <auto kernel, int shared_bytes = 0, class... Arguments>
  void launch(std::int64_t blocks, int threads, const Arguments&... arguments) {
    static_assert(shared_bytes <= 99 * 1024);  // of a block on sm_86 and sm_89
    if (error_ == cudaSuccess)
      error_ = launch_blocks<kernel, shared_bytes>(blocks, threads, stream_, arguments...);
  }

  /// Gradients of parameters, which are sums over tokens.
  bool asks_for_sums() const { return back_.dg_gamma.data || back_.dA_log.data || back_.ddt_bias.data; }
  /// Any gradient but those of v and of the initial state.
  bool asks_for_keys() const {
    return back_.dq.data || back_.dk.data || back_.dg.data || back_.dbeta.data || back_.da.data ||
           back_.db.data || asks_for_sums();
  }
  /// dV and dS do not depend on the states. low_rank_back reads them all the same.
  bool needs_states() const { return kLowRank || asks_for_keys(); }

  std::int64_t carry_blocks() const { return call_.N * call_.HV * (workspace_.VP / kCarryValues); }
  std::int64_t share_blocks() const { return call_.N * call_.HV * workspace_.shares; }

  void prepare(std::int64_t window, std::int64_t all) {
    workspace_.first = window * workspace_.places;
    places_ = std::min(workspace_.places, all - workspace_.first);
    if constexpr (!kLowRank) {
      launch<chunk_prepare<KP, rule, Workspace>, sizeof(PrepareMemory<KP, rule>)>(
          places_ * call_.HV, kThreads, call_, workspace_);
    }
  }
  void go_forward(bool keep) {
    if constexpr (kLowRank) {
      launch<low_rank_forward<KP>, sizeof(LowRankMemory<KP>)>(share_blocks(), kThreads, back_, workspace_,
                                                              keep);
    } else {
      using Memory = CarryMemory<KP, rule, Direction::forward>;
      launch<carry<KP, rule, Direction::forward>, sizeof(Memory)>(carry_blocks(), Memory::kThreads, back_,
                                                                  workspace_, keep);
    }
  }
  void go_back() {
    if constexpr (kLowRank) {
      launch<low_rank_back<KP>, sizeof(LowRankMemory<KP>)>(share_blocks(), kThreads, back_, workspace_);
    } else {
      using Memory = CarryMemory<KP, rule, Direction::back>;
      launch<carry<KP, rule, Direction::back>, sizeof(Memory)>(carry_blocks(), Memory::kThreads, back_,
                                                               workspace_, asks_for_keys());
    }
  }

  /// `rows`: of place 0, value head 0 and share 0.
  void store_rows_of(const float* rows, const Rows& to, const Rows& normed, float factor, int group) {
    if (!to.data) return;
    constexpr std::int64_t kFloats = sizeof(typename Workspace::Operators) / sizeof(float);
    const RowGradient gradient{.from = rows,
                               .head = workspace_.shares * kFloats,
                               .share = kFloats,
                               .to = to,
                               .normed = call_.l2norm ? normed : Rows{},
                               .factor = factor};
    launch<store_rows<KP, rule>>(places_ * (call_.HV / group), kThreads, back_, workspace_, gradient, group);
  }
  void store_all_rows() {
    auto& first = *workspace_.operators;
    if constexpr (kLowRank) {
      const Rows* const to[] = {&back_.dq, &back_.dk, &back_.da, &back_.db, &back_.dg};
      for (int i = 0; i < 5; ++i)
        store_rows_of(&first.at[i][0][0], *to[i], Rows{}, i == 0 ? call_.scale : 1, i < 4 ? call_.group : 1);
    } else {
      store_rows_of(&first.Q.at[0][0], back_.dq, call_.q, call_.scale, call_.group);
      store_rows_of(&first.Kr.at[0][0], back_.dk, call_.k, 1, call_.group);
    }
  }

  const BackwardCall& back_;
  const RecurrenceCall& call_;
  Workspace workspace_;
  cudaStream_t stream_;
  std::int64_t places_ = 0;  ///< of the window, that there are chunks for
  cudaError_t error_ = cudaSuccess;
};

template <int KP, Rule rule>
std::size_t backward_memory(const BackwardCall& back, std::int64_t window) {
  return BackwardWorkspace<KP, rule>(back.call, nullptr, window).bytes;
}

template <int KP, Rule rule>
cudaError_t launch_backward_kernels(const BackwardCall& back, void* memory, cudaStream_t stream,
                                    std::int64_t window) {
  return BackwardLaunches<KP, rule>(back, memory, stream, window).run();
}

/// Instantiates all kernels of one KP and rule.
#define FLA_BACKWARD_KERNELS(KP, RULE)                                                           \
  template std::size_t fla::cuda::backward_memory<KP, fla::Rule::RULE>(const fla::BackwardCall&, \
                                                                       std::int64_t);            \
  template cudaError_t fla::cuda::launch_backward_kernels<KP, fla::Rule::RULE>(                  \
      const fla::BackwardCall&, void*, cudaStream_t, std::int64_t);

}  // namespace fla::cuda
