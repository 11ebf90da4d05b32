#pragma once

#include <cstdint>
#include <vector>

#include "fla/ops/merge/merge.h"
#include "tools/cases/random.h"

namespace fla_test {

/// A call of merge with random summaries, and its result in float64.
struct MergeCall {
  struct Sizes {
    std::int64_t C = 3, N = 2, HV = 2, K = 12, V = 20;
    bool diagonal = false, state = true;
  };

  explicit MergeCall(const Sizes& sizes)
      : of(sizes),
        R(numbers({of.C, of.N, of.HV, of.K, of.V}, 1, 1)),
        P(of.diagonal ? numbers({of.C, of.N, of.HV, of.K}, 2, 1)
                      : numbers({of.C, of.N, of.HV, of.K, of.K}, 2, 1 / static_cast<float>(of.K))),
        initial_state(numbers({of.N, of.HV, of.K, of.V}, 3, 1)) {
    args.R = R, args.P = P;
    if (of.state) args.initial_state = initial_state;
  }

  std::vector<double> reference() const {
    const std::int64_t K = of.K, V = of.V;
    std::vector<double> all;
    for (std::int64_t head = 0; head < of.N * of.HV; ++head) {
      std::vector<double> state(static_cast<std::size_t>(K * V), 0.0);
      for (std::size_t i = 0; of.state && i < state.size(); ++i)
        state[i] = initial_state.as<float>()[head * K * V + static_cast<std::int64_t>(i)];
      for (std::int64_t c = 0; c < of.C; ++c) {
        const std::int64_t at = c * of.N * of.HV + head;
        std::vector<double> next(state.size());
        for (std::int64_t i = 0; i < K; ++i) {
          for (std::int64_t v = 0; v < V; ++v) {
            double sum = R.as<float>()[(at * K + i) * V + v];
            for (std::int64_t j = of.diagonal ? i : 0; j < (of.diagonal ? i + 1 : K); ++j) {
              const float p = P.as<float>()[of.diagonal ? at * K + i : (at * K + i) * K + j];
              sum += static_cast<double>(p) * state[static_cast<std::size_t>(j * V + v)];
            }
            next[static_cast<std::size_t>(i * V + v)] = sum;
          }
        }
        state = next;
      }
      all.insert(all.end(), state.begin(), state.end());
    }
    return all;
  }

  Sizes of;
  fla::Tensor R, P, initial_state;
  fla::MergeArgs args{};

 private:
  static fla::Tensor numbers(const std::vector<std::int64_t>& shape, std::uint64_t seed, float largest) {
    fla::Tensor tensor = fla::Tensor::empty(shape, fla::DType::f32);
    fla::cases::Random random(seed);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.as<float>()[i] = largest * (2 * random.uniform() - 1);
    return tensor;
  }
};

}  // namespace fla_test
