#include "tools/fla/bench_cuda.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tools/cases/op.h"
#include "tools/cases/with_op.h"
#include "tools/fla/chosen_backend.h"
#include "tools/fla/clock.h"
#include "tools/fla/counted_allocations.h"
#include "tools/fla/cuda_timer.h"
#include "tools/fla/device_calls.h"

namespace fla::command {
namespace {

/// One backend in one mode: calls that go round the sets of tensors.
template <class Calls>
class Contestant {
 public:
  using Args = typename Calls::Arguments;
  Contestant(CudaRow row, const Calls& calls, CudaTimer& timer)
      : row_(std::move(row)), calls_(calls), timer_(timer) {}

  /// Call 0 alone, as this mode makes it.
  void call_once() {
    if (row_.mode == LaunchMode::eager) {
      enqueue(1);
    } else {
      CudaGraph(timer_.stream(), [this] { enqueue(1); }).launch();
    }
  }

  /// What the kernel needs beside inputs and outputs: what it allocates when it is given nothing.
  void count_workspace() {
    const ScopedPolicy scope(policy_for(Args::kOp.name, row_.backend));
    Args args = calls_[0];
    args.workspace = {};
    const CountedAllocations counted;
    calls_.run(args, row_.function);
    row_.workspace_bytes = counted.bytes();
  }

  /// Warms up and finds out how many calls to time together: every set of tensors at least once, and enough
  /// for events to be exact.
  void prepare() {
    constexpr double kTimedSeconds = 2e-3;
    constexpr int kMostCalls = 1024;
    row_.calls = calls_.size();
    (void)timer_.time([this] { enqueue(row_.calls); });
    const double once = timer_.time([this] { enqueue(row_.calls); }) / row_.calls;
    const double wanted = std::ceil(kTimedSeconds / std::max(once, 1e-7));
    row_.calls = std::clamp(static_cast<int>(wanted), row_.calls, std::max(kMostCalls, row_.calls));
    if (row_.mode == LaunchMode::graph) graph_.emplace(timer_.stream(), [this] { enqueue(row_.calls); });
    for (int i = 0; i < 2; ++i) (void)measure();
  }

  void add_time() { times_.push_back(measure()); }

  CudaRow finish() {
    std::ranges::sort(times_);
    row_.repetitions = static_cast<int>(times_.size());
    row_.min_s = times_.front();
    row_.median_s = times_[times_.size() / 2];
    return std::move(row_);
  }

  CudaRow& row() { return row_; }

 private:
  void enqueue(int count) const {
    const Policy policy = policy_for(Args::kOp.name, row_.backend);
    const auto run = [this](int i) { calls_.run(calls_[i % calls_.size()], row_.function); };
    if constexpr (!RecurrenceArgs<Args>) {
      if (row_.with_forward) {
        // Forward by the original kernels as well, or else by the backend that is asked first.
        const Policy before = row_.backend == kOriginal ? policy : Policy{};
        for (int i = 0; i < count; ++i) {
          {
            const ScopedPolicy scope(before);
            calls_.run_forward(i % calls_.size());
          }
          const ScopedPolicy scope(policy);
          run(i);
        }
        return;
      }
    }
    const ScopedPolicy scope(policy);
    for (int i = 0; i < count; ++i) run(i);
  }

  /// Seconds of one call.
  double measure() {
    if (graph_) return timer_.time([this] { graph_->launch(); }) / row_.calls;
    return timer_.time([this] { enqueue(row_.calls); }) / row_.calls;
  }

  CudaRow row_;
  const Calls& calls_;
  CudaTimer& timer_;
  std::optional<CudaGraph> graph_;
  std::vector<double> times_;
};

/// Of the backends that were asked for those that take this call; of all if none was.
template <class Args>
std::vector<std::string> backends_for(const CudaBenchRequest& request, std::string_view function,
                                      const Args& args) {
  std::vector<std::string> names;
  if (request.backends.empty()) {
    names = backends_that_take(explain(Args::kOp.name, function, args));
    names.emplace_back(kOriginal);
  }
  for (const std::string& wanted : request.backends) {
    const ScopedPolicy scope(policy_for(Args::kOp.name, wanted));
    if (wanted == kOriginal || explain(Args::kOp.name, function, args).selected == wanted)
      names.push_back(wanted);
  }
  return names;
}

/// Backward functions are measured by themselves and after the forward one, as training calls them.
template <class Args>
std::vector<std::pair<LaunchMode, bool>> modes_of() {
  std::vector<std::pair<LaunchMode, bool>> modes{{LaunchMode::eager, false}, {LaunchMode::graph, false}};
  if constexpr (!RecurrenceArgs<Args>)
    modes.insert(modes.end(), {{LaunchMode::eager, true}, {LaunchMode::graph, true}});
  return modes;
}

/// All modes of all backends on one case, in turns.
template <class Calls>
std::vector<CudaRow> measure(const CudaBenchRequest& request, const CudaCase& of, DType dtype,
                             CudaTimer& timer) {
  using Args = typename Calls::Arguments;
  constexpr int kFewest = 5, kMost = 51;
  Calls calls(request, of, dtype, timer.stream());
  const Args& args = calls[0];
  std::string function(Args::kOp.backward);
  if constexpr (RecurrenceArgs<Args>)
    function = cases::find_op(Args::kOp.name).function_or_front_door(request.function, &args);
  std::vector<Contestant<Calls>> contestants;
  std::vector<CudaRow> rows;
  for (const std::string& backend : backends_for(request, function, args)) {
    for (const auto& [mode, with_forward] : modes_of<Args>()) {
      CudaRow row{.of = &of,
                  .function = function,
                  .backend = backend,
                  .mode = mode,
                  .with_forward = with_forward,
                  .dtype = dtype,
                  .in_place = calls.in_place(),
                  .call_sets = calls.size(),
                  .bytes = calls.bytes()};
      Contestant<Calls> contestant(row, calls, timer);
      try {
        contestant.count_workspace();
        calls.reset(0);
        contestant.call_once();
        const DeviceErrors errors = calls.errors();
        contestant.row().error_o = errors.o;
        contestant.row().error_state = errors.state;
        contestant.prepare();
        contestants.push_back(std::move(contestant));
      } catch (const DeviceLost&) {
        throw;
      } catch (const BackendError& error) {
        row.failure = error.what();
        rows.push_back(std::move(row));
      }
    }
  }
  const double end = now() + request.seconds * static_cast<double>(contestants.size());
  for (int round = 0; request.repetitions > 0 ? round < request.repetitions
                                              : round < kFewest || (round < kMost && now() < end);
       ++round) {
    for (Contestant<Calls>& contestant : contestants) contestant.add_time();
  }
  for (Contestant<Calls>& contestant : contestants) rows.push_back(contestant.finish());
  return rows;
}

}  // namespace

int bench_steps(const CudaBenchRequest& request) {
  return static_cast<int>(request.dtypes.size() * request.cases.size()) + 2;
}

namespace {

template <class Calls>
CudaBenchReport bench_op(const CudaBenchRequest& request, Progress& progress) {
  CudaBenchReport report{.op = request.op,
                         .device = request.device,
                         .data = cases::name_of(request.data),
                         .copy_bytes_per_s = 0,
                         .rows = {}};
  CudaTimer timer(request.device);
  // The best that was seen of the memory counts: before everything, when the device is cool, and after it.
  const auto copy = [&] {
    progress.begin("what the memory can do");
    report.copy_bytes_per_s = std::max(report.copy_bytes_per_s, measure_device_copy(request.device, timer));
  };
  copy();
  for (const DType dtype : request.dtypes) {
    for (const CudaCase& each : request.cases) {
      progress.begin(each.name + " " + std::string(name_of(dtype)) + ", state " +
                     std::string(name_of(each.state_dtype)));
      for (CudaRow& row : measure<Calls>(request, each, dtype, timer)) report.rows.push_back(std::move(row));
    }
  }
  copy();
  if (report.rows.empty()) throw InvalidArgument("backend", "none of those takes any of these calls");
  return report;
}

}  // namespace

CudaBenchReport run_bench(const CudaBenchRequest& request, Progress& progress) {
  return cases::with_op(request.op, [&]<class Args>(std::type_identity<Args>) {
    return request.backward ? bench_op<BackwardDeviceCalls<Args>>(request, progress)
                            : bench_op<DeviceCalls<Args>>(request, progress);
  });
}

}  // namespace fla::command
