#include "tools/fla/peak.h"

#include <hwy/targets.h>
#include <strings.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fla/core/environment.h"
#include "fla/core/tensor.h"
#include "fla/core/threads.h"
#include "tools/fla/clock.h"
#include "tools/fla/multiply_add.h"

namespace fla::command {
namespace {

std::atomic<double> sink;  // what loops compute goes here, so that they are not left out

double rate_of(const MultiplyAddLoops& loops, int variant, std::int64_t iterations) {
  const int threads = num_threads();
  const double begin = now();
  parallel_for(threads, [&](std::int64_t, int) { sink = loops.run(variant, iterations); });
  return threads * loops.operations_per_iteration * static_cast<double>(iterations) / (now() - begin);
}

double best_rate(const MultiplyAddLoops& loops) {
  constexpr double kSeconds = 0.01;
  constexpr int kRounds = 4;
  std::int64_t iterations = 1 << 14;
  const double first = rate_of(loops, 0, iterations) / num_threads();
  iterations =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kSeconds * first / loops.operations_per_iteration));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int variant = 0; variant < loops.variants; ++variant)
      best = std::max(best, rate_of(loops, variant, iterations));
  }
  return best;
}

constexpr std::int64_t kFloats = (std::int64_t{FLA_COPIED_MIB} << 20) / sizeof(float);
constexpr std::int64_t kPart = std::int64_t{1} << 16;

std::shared_ptr<float> make_floats() {
  auto memory = std::make_shared<Tensor>(Tensor::empty({kFloats}, DType::f32));
  std::fill_n(memory->as<float>(), kFloats, 1.0f);
  return {memory, memory->as<float>()};
}

/// One pass over all the memory, every thread over a contiguous share of it; the time it takes.
template <class Pass>
double time_pass(Pass&& pass) {
  const int threads = num_threads();
  const std::int64_t share = kFloats / threads / kPart * kPart;
  const double begin = now();
  parallel_for(threads, [&](std::int64_t task, int) {
    const std::int64_t from = task * share, to = task + 1 == threads ? kFloats : from + share;
    pass(from, to - from);
  });
  return now() - begin;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

MultiplyAddRate measure_multiply_add_rate() {
  const std::optional<std::string> forced = environment("FLA_CPU_SIMD_TARGET");
  MultiplyAddRate best;
  const std::int64_t supported = hwy::SupportedTargets();
  for (std::int64_t target = 1; target > 0 && target <= supported; target <<= 1) {
    if ((supported & target) == 0) continue;
    const MultiplyAddLoops* loops = multiply_add_loops(target);
    if (loops == nullptr || (forced && ::strcasecmp(forced->c_str(), hwy::TargetName(target)) != 0)) continue;
    if (const double rate = best_rate(*loops); rate > best.operations_per_s)
      best = {rate, hwy::TargetName(target)};
  }
  return best;
}

CopyBandwidth::CopyBandwidth() : from_(make_floats()), to_(make_floats()) {}

double CopyBandwidth::measure() {
  constexpr int kPasses = 7;
  constexpr double kBytes = 2.0 * sizeof(float) * kFloats;
  std::vector<double> in_place, copied;
  for (int pass = 0; pass < kPasses; ++pass) {
    in_place.push_back(time_pass([this](std::int64_t at, std::int64_t count) {
      float* x = from_.get() + at;
      for (std::int64_t i = 0; i < count; ++i) x[i] *= 0.9999999f;
    }));
    copied.push_back(time_pass([this](std::int64_t at, std::int64_t count) {
      std::memcpy(to_.get() + at, from_.get() + at, static_cast<std::size_t>(count) * sizeof(float));
    }));
  }
  return kBytes / std::min(median(in_place), median(copied));
}

}  // namespace fla::command
