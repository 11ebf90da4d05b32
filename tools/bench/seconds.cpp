#include "tools/bench/seconds.h"

#include <algorithm>
#include <vector>

#include "tools/fla/clock.h"

#ifdef FLA_HAS_CUDA
#include "tools/fla/cuda_timer.h"
#endif

namespace fla::bench {
namespace {

double seconds_on_cpu(const std::function<void(Stream)>& run) {
  double least = 1e9;
  for (int i = 0; i < 12; ++i) {
    const double begin = command::now();
    run({});
    least = std::min(least, command::now() - begin);
  }
  return least;
}

#ifdef FLA_HAS_CUDA

double seconds_of_graph(Device device, const std::function<void(Stream)>& run) {
  command::CudaTimer timer(device);
  run(timer.stream());
  const command::CudaGraph graph(timer.stream(), [&] { run(timer.stream()); });
  std::vector<double> times;
  for (int i = 0; i < 23; ++i) {
    const double time = timer.time([&] { graph.launch(); });
    if (i >= 3) times.push_back(time);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

#endif

}  // namespace

double seconds(Device device, const std::function<void(Stream)>& run) {
#ifdef FLA_HAS_CUDA
  if (!device.is_cpu()) return seconds_of_graph(device, run);
#endif
  static_cast<void>(device);
  return seconds_on_cpu(run);
}

}  // namespace fla::bench
