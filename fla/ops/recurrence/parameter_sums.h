#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fla/ops/common/rows.h"
#include "fla/ops/recurrence/call.h"

namespace fla::recurrence {

/// What a value head of a sequence adds to the gradients of parameters, which are sums over tokens.
struct ParameterSums {
  double *gamma, *rate, *bias;  ///< of g_gamma, A_log and dt_bias, [K] or one
};

/// Those of every sequence and value head of a call on a CPU, which are added up in an order that does not
/// depend on threads.
class AllParameterSums {
 public:
  explicit AllParameterSums(const RecurrenceCall& call)
      : call_(call),
        size_(static_cast<std::size_t>(2 + call.K)),
        sums_(static_cast<std::size_t>(call.N * call.HV) * size_, 0.0) {}

  ParameterSums of(std::int64_t sequence, std::int64_t value_head) {
    double* const first = &sums_[at(sequence, value_head)];
    return {first, first + 1, first + 2};
  }

  void store(const BackwardCall& back) const {
    store(back.dg_gamma, 0, 1);
    store(back.dA_log, 1, 1);
    store(back.ddt_bias, 2, call_.gate_kind == GateKind::channel ? call_.K : 1);
  }

 private:
  std::size_t at(std::int64_t sequence, std::int64_t value_head) const {
    return static_cast<std::size_t>(sequence * call_.HV + value_head) * size_;
  }

  void store(const common::Parameters& to, std::size_t first, std::int64_t channels) const {
    if (!to.data) return;
    for (std::int64_t head = 0; head < call_.HV; ++head) {
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (std::int64_t n = 0; n < call_.N; ++n)
          sum += sums_[at(n, head) + first + static_cast<std::size_t>(c)];
        const auto value = static_cast<float>(sum);
        common::store_row(to.data, to.dtype, head * to.head + c * to.channel, 0, 1, &value);
      }
    }
  }

  const RecurrenceCall& call_;
  std::size_t size_;
  std::vector<double> sums_;
};

}  // namespace fla::recurrence
