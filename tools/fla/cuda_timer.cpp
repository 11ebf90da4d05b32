#include "tools/fla/cuda_timer.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_error.h"
#include "fla/core/device_memory.h"

namespace fla::command {
namespace {

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

void* make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "making an event");
  return event;
}

}  // namespace

CudaTimer::CudaTimer(Device device) {
  check_cuda(cudaSetDevice(device.index), "making a device current");
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_ = stream;
  begin_ = make_event();
  end_ = make_event();
}

CudaTimer::~CudaTimer() {
  (void)cudaStreamSynchronize(stream_of(stream_));
  (void)cudaEventDestroy(event_of(begin_));
  (void)cudaEventDestroy(event_of(end_));
  (void)cudaStreamDestroy(stream_of(stream_));
}

double CudaTimer::time(const std::function<void()>& work) {
  check_cuda(cudaEventRecord(event_of(begin_), stream_of(stream_)), "recording an event");
  work();
  check_cuda(cudaEventRecord(event_of(end_), stream_of(stream_)), "recording an event");
  check_cuda(cudaEventSynchronize(event_of(end_)), "waiting for what is timed");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, event_of(begin_), event_of(end_)), "asking for a time");
  return 1e-3 * static_cast<double>(milliseconds);
}

CudaGraph::CudaGraph(Stream stream, const std::function<void()>& work) : stream_(stream.handle) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(stream_of(stream_), cudaStreamCaptureModeThreadLocal),
             "beginning to capture");
  try {
    work();
  } catch (...) {
    (void)cudaStreamEndCapture(stream_of(stream_), &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_of(stream_), &graph), "capturing a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  check_cuda(made, "instantiating a graph");
  graph_ = executable;
}

CudaGraph::~CudaGraph() {
  if (graph_ != nullptr) (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph_));
}

CudaGraph::CudaGraph(CudaGraph&& other) noexcept
    : stream_(other.stream_), graph_(std::exchange(other.graph_, nullptr)) {}

void CudaGraph::launch() const {
  check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), stream_of(stream_)), "launching a graph");
}

double measure_device_copy(Device device, CudaTimer& timer) {
  constexpr int kWarm = 3;
  constexpr std::size_t kMost = std::size_t{2} << 30;
  const std::size_t bytes = std::min(kMost, find_cuda_device(device)->memory / 16);
  const std::shared_ptr<void> from = allocate_on(device, bytes, timer.stream()),
                              to = allocate_on(device, bytes, timer.stream());
  cudaStream_t const stream = stream_of(timer.stream().handle);
  check_cuda(cudaMemsetAsync(from.get(), 0x5a, bytes, stream), "filling memory");
  std::array<double, 15> times{};
  for (int i = -kWarm; i < static_cast<int>(times.size()); ++i) {
    const double seconds = timer.time([&] {
      check_cuda(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream), "copying");
    });
    if (i >= 0) times[static_cast<std::size_t>(i)] = seconds;
  }
  std::ranges::sort(times);
  return 2.0 * static_cast<double>(bytes) / times[times.size() / 2];
}

std::size_t cache_bytes(Device device) {
  int bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device.index),
             "asking for the cache's size");
  return static_cast<std::size_t>(bytes);
}

}  // namespace fla::command
