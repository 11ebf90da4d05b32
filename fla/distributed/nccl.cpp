#include "fla/distributed/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "fla/core/cuda_error.h"
#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/distributed/watch.h"

namespace fla::distributed {
namespace {

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

std::string words_of(ncclResult_t result, ncclComm_t communicator) {
  std::string text = ncclGetErrorString(result);
  const char* const more = ncclGetLastError(communicator);
  if (more != nullptr && *more != '\0') text += " (" + std::string(more) + ")";
  return text;
}

class Event {
 public:
  Event() {
    check_cuda(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "making an event",
               BackendError::Wrote::nothing);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { (void)cudaEventDestroy(handle_); }

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(handle_, stream), "recording an event"); }
  /// Also after an error of the device, which others report.
  bool passed() const { return cudaEventQuery(handle_) != cudaErrorNotReady; }

 private:
  cudaEvent_t handle_ = nullptr;
};

class OnStream final : public UnderWay {
 public:
  bool begun() override { return begin.passed(); }
  bool done() override { return end.passed(); }
  Event begin, end;
};

/// Something that the calling thread does.
class OnThread final : public UnderWay {
 public:
  explicit OnThread(std::shared_ptr<const std::atomic<bool>> over) : over_(std::move(over)) {}
  bool begun() override { return true; }
  bool done() override { return *over_; }

 private:
  std::shared_ptr<const std::atomic<bool>> over_;
};

/// Holds a scope to the time limit: NCCL connects ranks when they first need it, and waits for them.
class WatchedScope {
 public:
  explicit WatchedScope(Watch& watch) { watch.add(std::make_unique<OnThread>(over_)); }
  WatchedScope(const WatchedScope&) = delete;
  WatchedScope& operator=(const WatchedScope&) = delete;
  ~WatchedScope() { *over_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
};

/// What of a communicator never changes.
struct Facts {
  int rank = 0, ranks = 1, device = 0;

  explicit Facts(ncclComm_t communicator) {
    if (communicator == nullptr)
      throw InvalidArgument("communicator", "expected an NCCL communicator, got none");
    const auto check = [&](const char* what, ncclResult_t result) {
      if (result == ncclSuccess) return;
      throw BackendError(std::string(what) + ": " + words_of(result, communicator),
                         BackendError::Wrote::nothing);
    };
    check("ncclCommUserRank", ncclCommUserRank(communicator, &rank));
    check("ncclCommCount", ncclCommCount(communicator, &ranks));
    check("ncclCommCuDevice", ncclCommCuDevice(communicator, &device));
  }
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(ncclComm_t communicator, const NcclOptions& options)
      : communicator_(communicator),
        facts_(communicator),
        watch_({.rank = facts_.rank,
                .begin = [this] { begin_watching(); },
                .error = [this] { return asynchronous_error(); },
                .abort = [this] { (void)ncclCommAbort(communicator_); },
                .missing_ranks = options.missing_ranks},
               options.time_limit) {}

  int rank() const override { return facts_.rank; }
  int ranks() const override { return facts_.ranks; }
  Device device() const override { return Device::cuda(facts_.device); }

  Tensor all_gather(Tensor mine, std::span<const std::int64_t> counts, Stream stream) override {
    watch_.check();
    const CurrentDevice current(facts_.device);
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    Tensor all = empty_on(std::array{total}, DType::f32, device(), stream);

    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(of(stream), &capture), "asking whether a stream is captured",
               BackendError::Wrote::nothing);
    std::unique_ptr<OnStream> exchange;
    if (capture == cudaStreamCaptureStatusNone) {
      exchange = std::make_unique<OnStream>();
      exchange->begin.record(of(stream));
    } else {
      captured_ = true;
    }
    {
      const WatchedScope watched(watch_);
      ncclResult_t result = ncclGroupStart();
      float* to = all.as<float>();
      for (std::size_t root = 0; root < counts.size(); ++root) {
        if (counts[root] == 0) continue;
        if (result == ncclSuccess || result == ncclInProgress) {
          result = ncclBroadcast(mine.data(), to, static_cast<std::size_t>(counts[root]), ncclFloat,
                                 static_cast<int>(root), communicator_, of(stream));
        }
        to += counts[root];
      }
      const ncclResult_t ended = ncclGroupEnd();
      check(result == ncclSuccess || result == ncclInProgress ? ended : result);
    }
    if (exchange) {
      exchange->end.record(of(stream));
      watch_.add(std::move(exchange));
    }
    return all;
  }

  void synchronize(Device on, Stream stream) override {
    const CurrentDevice current(on.index);
    std::unique_ptr<WatchedScope> watched;
    if (captured_) watched = std::make_unique<WatchedScope>(watch_);
    cudaError_t error = cudaErrorNotReady;
    while ((error = cudaStreamQuery(of(stream))) == cudaErrorNotReady) {
      watch_.check();
      pause();
    }
    watch_.check();
    check_cuda(error, "waiting for a stream");
  }

 private:
  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  /// On the thread of the watch.
  void begin_watching() const {
    // Others may capture graphs meanwhile, in a mode in which no thread may ask for events otherwise.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    (void)cudaSetDevice(facts_.device);
  }

  std::string asynchronous_error() {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &found);
    const ncclResult_t result = asked == ncclSuccess ? found : asked;
    busy_ = result == ncclInProgress;
    return result == ncclSuccess || busy_ ? std::string() : "NCCL: " + words_of(result, communicator_);
  }

  /// What NCCL answered. A communicator that does not block answers later.
  void check(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress)
      watch_.fail("NCCL: " + words_of(result, communicator_));
    watch_.check();
    for (; busy_; watch_.check()) pause();
  }

  const ncclComm_t communicator_;
  const Facts facts_;
  bool captured_ = false;
  std::atomic<bool> busy_ = false;
  Watch watch_;  // the last member: its thread uses the others
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(ncclComm_t communicator, const NcclOptions& options) {
  return std::make_unique<NcclTransport>(communicator, options);
}

}  // namespace fla::distributed
