#pragma once

#include <functional>

#include "fla/core/device.h"

/// How long work takes on a GPU. Only in builds with CUDA.
namespace fla::command {

/// A stream and the clock of its device. Everything that is timed goes on that stream. Throws BackendError.
class CudaTimer {
 public:
  explicit CudaTimer(Device device);
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  Stream stream() const { return {stream_}; }

  /// Seconds between an event that is put on the stream before `work` puts anything there and one that
  /// follows it. Where the host is slower than the device, that is the host's time. Waits for the end.
  double time(const std::function<void()>& work);

 private:
  void* stream_ = nullptr;
  void *begin_ = nullptr, *end_ = nullptr;
};

/// What `work` puts on the stream, captured once, to be launched as often as one likes.
class CudaGraph {
 public:
  CudaGraph(Stream stream, const std::function<void()>& work);
  ~CudaGraph();
  CudaGraph(CudaGraph&& other) noexcept;
  CudaGraph& operator=(CudaGraph&&) = delete;

  void launch() const;

 private:
  void* stream_;
  void* graph_ = nullptr;
};

/// Bytes read and written per second by copies from one place of the device's memory to another, 2 GiB at a
/// time where the device has room for it: the median of several.
double measure_device_copy(Device device, CudaTimer& timer);

/// Bytes of the device's last-level cache.
std::size_t cache_bytes(Device device);

}  // namespace fla::command
