#include "fla/ops/common/stages.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "fla/core/errors.h"
#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/norm.h"
#include "fla/ops/common/rows.h"
#include "fla/ops/common/stage_set.h"
#include "fla/ops/common/tril.h"

namespace fla {
namespace common {
namespace {

void expect_cpu(const char* stage, const char* argument, const TensorView& tensor) {
  if (tensor.device().is_cpu()) return;
  throw InvalidArgument(argument,
                        "expected device cpu, got " + to_string(tensor.device()) +
                            ": the stages have kernels for the CPU alone",
                        stage);
}

std::int64_t row_at(const TensorView& tensor, std::int64_t batch, std::int64_t token, std::int64_t head) {
  return batch * tensor.stride(0) + token * tensor.stride(1) + head * tensor.stride(2);
}

/// Computes one row of the result, in its place if its elements lie together, in `room` otherwise: body(row)
/// finds the input's row there and leaves the result's.
template <class Body>
void make_row(const TensorView& input, const TensorView& out, std::int64_t batch, std::int64_t token,
              std::int64_t head, float* room, Body&& body) {
  const std::int64_t at = row_at(out, batch, token, head), count = out.size(3);
  float* row = out.stride(3) == 1 ? out.as<float>() + at : room;
  load_row(input, row_at(input, batch, token, head), input.stride(3), count, row);
  body(row);
  if (row == room) store_row(out, at, out.stride(3), count, row);
}

/// Calls body(batch, head, room) for every batch and head of a tensor [B, T, heads, width], with room for
/// some rows, in parallel. A block of one head stays on the thread that asked.
template <class Body>
void for_each_head(const TensorView& tensor, std::int64_t rows, Body&& body) {
  const std::int64_t heads = tensor.size(2);
  const std::size_t floats = static_cast<std::size_t>(rows * tensor.size(3));
  // Some operations an element, exponentials among them.
  const int threads = threads_worth(20.0 * static_cast<double>(tensor.numel()));
  parallel_for(tensor.size(0) * heads, threads, [&](std::int64_t task, int) {
    const HeldScratch scratch(floats);
    body(task / heads, task % heads, scratch.data());
  });
}

}  // namespace

DISPATCH("common", StageResult, l2_norm, const L2NormArgs& args) {
  expect_cpu("l2_norm", "x", args.x);
  StageResult result = make_result(args);
  const TensorView& out = result.out;
  const std::int64_t K = args.x.size(3);
  for_each_head(args.x, 1, [&](std::int64_t batch, std::int64_t head, float* room) {
    for (std::int64_t t = 0; t < args.x.size(1); ++t)
      make_row(args.x, out, batch, t, head, room, [&](float* row) { l2_normalise(row, K); });
  });
  return result;
}

DISPATCH("common", StageResult, gate, const GateArgs& args) {
  expect_cpu("gate", "g", args.g);
  StageResult result = make_result(args);
  const TensorView& out = result.out;
  const std::int64_t K = args.g.size(3);
  for_each_head(args.g, 2, [&](std::int64_t batch, std::int64_t head, float* room) {
    const float rate =
        args.A_log.defined() ? std::exp(load_element(args.A_log, head * args.A_log.stride(0))) : 1.0f;
    float* bias = nullptr;
    if (const TensorView& given = args.dt_bias; given.defined()) {
      const bool flat = given.rank() == 1;
      bias = room + K;
      load_row(given, head * given.stride(0) * (flat ? K : 1), given.stride(flat ? 0 : 1), K, bias);
    }
    for (std::int64_t t = 0; t < args.g.size(1); ++t) {
      make_row(args.g, out, batch, t, head, room, [&](float* row) {
        if (args.lower_bound) {
          bounded_gate(*args.lower_bound, rate, bias, K, row);
        } else {
          softplus_gate(rate, bias, K, row);
        }
      });
    }
  });
  return result;
}

DISPATCH("common", StageResult, solve_tril, const SolveTrilArgs& args) {
  expect_cpu("solve_tril", "A", args.A);
  StageResult result = make_result(args);
  const TensorView& out = result.out;
  const std::int64_t C = args.A.size(3);
  for_each_head(args.A, 1, [&](std::int64_t batch, std::int64_t head, float* room) {
    for (std::int64_t begin = 0; begin < args.A.size(1); begin += C) {
      UnitLowerInverse inverse;
      for (std::int64_t i = 0; i < std::min(C, args.A.size(1) - begin); ++i) {
        load_row(args.A, row_at(args.A, batch, begin + i, head), args.A.stride(3), i, room);
        std::copy_n(inverse.add_row(room), i + 1, room);
        std::fill(room + i + 1, room + C, 0.0f);
        store_row(out, row_at(out, batch, begin + i, head), out.stride(3), C, room);
      }
    }
  });
  return result;
}

StageSet StageSet::current() {
  for (;;) {
    const std::uint64_t generation = dispatch::generation();
    StageSet set{dispatch::Stage(l2_norm_function), dispatch::Stage(gate_function),
                 dispatch::Stage(solve_tril_function)};
    if (dispatch::generation() == generation) return set;
  }
}

}  // namespace common

StageResult CommonBackend::l2_norm(const L2NormArgs&) { not_implemented("l2_norm"); }
Verdict CommonBackend::l2_norm_verifier(const L2NormArgs&) const { return accept(); }
StageResult CommonBackend::gate(const GateArgs&) { not_implemented("gate"); }
Verdict CommonBackend::gate_verifier(const GateArgs&) const { return accept(); }
StageResult CommonBackend::solve_tril(const SolveTrilArgs&) { not_implemented("solve_tril"); }
Verdict CommonBackend::solve_tril_verifier(const SolveTrilArgs&) const { return accept(); }

}  // namespace fla
