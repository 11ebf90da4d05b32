#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "fla/core/device_memory.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"

#ifdef FLA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

/// What the benchmarks of decoding steps share: inputs, and the time of a run of steps.
namespace fla_bench {

/// Numbers from `low` to `high`, the same ones for every sequence.
inline fla::Tensor random(fla::Device device, std::vector<std::int64_t> shape, fla::DType dtype, float low,
                          float high) {
  static std::uint64_t seed = 1;
  fla::cases::Random numbers(seed++);
  const fla::Tensor host = fla::Tensor::empty(shape, dtype);
  const std::int64_t one = host.numel() / shape[0];
  for (std::int64_t i = 0; i < one; ++i)
    fla::cases::store(host, i, static_cast<double>(low + (high - low) * numbers.uniform()));
  const auto bytes = static_cast<std::size_t>(one) * fla::size_of(dtype);
  for (std::int64_t n = 1; n < shape[0]; ++n)
    std::copy_n(host.as<std::byte>(), bytes, host.as<std::byte>() + static_cast<std::size_t>(n) * bytes);
  return fla::copy_to(host, device);
}

/// Seconds that one run takes, the least of several.
inline double seconds_on_cpu(const std::function<void(fla::Stream)>& run) {
  double least = 1e9;
  for (int i = 0; i < 12; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run({});
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

#ifdef FLA_HAS_CUDA

/// The same of a graph of the run, the median of several.
inline double seconds_of_graph(const std::function<void(fla::Stream)>& run) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  run({stream});
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  run({stream});
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&instance, graph, 0);
  std::vector<float> times;
  for (int i = 0; i < 23; ++i) {
    cudaEventRecord(begin, stream);
    cudaGraphLaunch(instance, stream);
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (i >= 3) times.push_back(milliseconds);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
    std::exit(1);
  }
  std::ranges::sort(times);
  return static_cast<double>(times[times.size() / 2]) * 1e-3;
}

#endif

/// On a GPU those of a graph.
inline double seconds(fla::Device device, const std::function<void(fla::Stream)>& run) {
#ifdef FLA_HAS_CUDA
  if (!device.is_cpu()) return seconds_of_graph(run);
#endif
  static_cast<void>(device);
  return seconds_on_cpu(run);
}

}  // namespace fla_bench
