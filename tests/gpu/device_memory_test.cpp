#include "fla/core/device_memory.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "fla/core/dlpack_abi.h"
#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/gpu/gpu.h"

namespace {

using fla::Device;
using fla::DType;
using fla::InvalidArgument;
using fla::Stream;
using fla::Tensor;
using fla::TensorView;
using fla_test::CudaStream;
using fla_test::error_text;
using fla_test::kGpu;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;

using GpuDevices = fla_test::GpuTest;
using GpuMemory = fla_test::GpuTest;

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::vector<float> values_of(const TensorView& tensor, Stream stream = {}) {
  const Tensor here = fla::copy_to(tensor, {}, stream);
  return {here.as<float>(), here.as<float>() + here.numel()};
}

/// An allocator that writes down what is asked of it.
class Recorder {
 public:
  Recorder() { fla::set_device_allocator({.allocate = allocate, .release = release, .context = this}); }
  ~Recorder() { fla::set_device_allocator({}); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  int allocations = 0, releases = 0;
  std::map<void*, std::size_t> held;
  std::vector<void*> streams;  // of the allocations and releases, in their order
  bool empty = false;

 private:
  static void* allocate(void* context, std::size_t bytes, Device, Stream stream) {
    auto* self = static_cast<Recorder*>(context);
    const std::lock_guard lock(self->mutex_);
    if (self->empty) return nullptr;
    void* memory = nullptr;
    EXPECT_EQ(cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(stream.handle)), cudaSuccess);
    ++self->allocations;
    self->held[memory] = bytes;
    self->streams.push_back(stream.handle);
    return memory;
  }
  static void release(void* context, void* memory, std::size_t bytes, Device, Stream stream) {
    auto* self = static_cast<Recorder*>(context);
    const std::lock_guard lock(self->mutex_);
    ++self->releases;
    EXPECT_EQ(self->held[memory], bytes);
    self->held.erase(memory);
    self->streams.push_back(stream.handle);
    EXPECT_EQ(cudaFreeAsync(memory, static_cast<cudaStream_t>(stream.handle)), cudaSuccess);
  }

  std::mutex mutex_;
};

TEST_F(GpuDevices, AreThoseOfTheDriver) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_EQ(fla::cuda_devices().size(), static_cast<std::size_t>(count));
  EXPECT_EQ(fla::why_no_cuda_device(), "");
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  const fla::CudaDevice& device = fla::cuda_devices()[0];
  EXPECT_EQ(device.name, properties.name);
  EXPECT_EQ(device.architecture(), 10 * properties.major + properties.minor);
  EXPECT_EQ(device.multiprocessors, properties.multiProcessorCount);
  EXPECT_EQ(device.memory, properties.totalGlobalMem);
  EXPECT_EQ(fla::find_cuda_device(kGpu), &device);
}

TEST_F(GpuDevices, DriverVersionIsTheDriversOwn) {
  int version = 0;
  ASSERT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(fla::cuda_driver_version(),
            std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10));
}

TEST_F(GpuMemory, DeviceThatIsNotThereIsRefused) {
  const auto count = static_cast<std::int16_t>(fla::cuda_devices().size());
  const std::string expected = count == 1 ? "cuda:0" : "cuda:0 to cuda:" + std::to_string(count - 1);
  EXPECT_EQ(error_text<InvalidArgument>([count] {
              Tensor::empty({2}, DType::f32, Device{fla::DeviceType::cuda, count});
            }),
            "device: expected cpu or " + expected + ", got cuda:" + std::to_string(count));
}

TEST_F(GpuMemory, IsAligned) {
  for (const std::size_t bytes : {0, 1, 100, 4096}) {
    const std::shared_ptr<void> memory = fla::allocate_on(kGpu, bytes, {});
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0u);
  }
}

TEST_F(GpuMemory, CopyGoesThereAndBack) {
  const std::vector<float> values = counting(1000);
  const Tensor there = fla::copy_to({values.data(), DType::f32, {10, 100}}, kGpu);
  EXPECT_EQ(there.device(), kGpu);
  const Tensor beside = fla::copy_to(there, kGpu);
  EXPECT_NE(beside.data(), there.data());
  EXPECT_THAT(values_of(beside), ElementsAreArray(values));
}

TEST_F(GpuMemory, CopyFollowsTheStream) {
  const CudaStream stream;
  const std::vector<float> values = counting(1 << 20);
  const Tensor there = fla::empty_on(std::array<std::int64_t, 1>{1 << 20}, DType::f32, kGpu, stream.stream());
  fla::copy({values.data(), DType::f32, {1 << 20}}, there, stream.stream());
  const Tensor beside = fla::copy_to(there, kGpu, stream.stream());
  EXPECT_THAT(values_of(beside, stream.stream()), ElementsAreArray(values));
}

TEST_F(GpuMemory, CopyToPacksOnTheWay) {
  const std::vector<float> values = counting(12);
  const TensorView columns = TensorView(values.data(), DType::f32, {3, 4}).slice(1, 1, 2);
  EXPECT_THAT(values_of(fla::copy_to(columns, kGpu)), ElementsAre(1, 2, 5, 6, 9, 10));
}

TEST_F(GpuMemory, LayoutsOfAGpuAreNotPacked) {
  const Tensor there = Tensor::zeros({3, 4}, DType::f32, kGpu);
  EXPECT_EQ(error_text<InvalidArgument>([&] { fla::copy_to(there.view().slice(1, 1, 2), {}); }),
            "tensor: expected a contiguous tensor, got f32[3, 2] on cuda:0 with strides [4, 1]");
}

TEST_F(GpuMemory, ClearsWhatTheCpuClears) {
  const auto part = [](const TensorView& all, int which) {
    switch (which) {
      case 0: return all.slice(0, 1, 1);                 // one run of bytes
      case 1: return all.slice(1, 1, 2);                 // rows
      case 2: return all.slice(1, 1, 2).slice(2, 1, 2);  // rows of several matrices
      default: return TensorView(all.as<float>() + 8, DType::f32, {2, 2, 3}, {2, 12, -4}, all.device());
    }
  };
  for (int which = 0; which < 4; ++which) {
    std::vector<float> values = counting(24);
    const CudaStream stream;
    const Tensor there = fla::copy_to({values.data(), DType::f32, {2, 3, 4}}, kGpu, stream.stream());
    fla::clear(part(there, which), stream.stream());
    fla::clear(part({values.data(), DType::f32, {2, 3, 4}}, which));
    EXPECT_THAT(values_of(there, stream.stream()), ElementsAreArray(values)) << which;
  }
}

TEST_F(GpuMemory, ZerosAreZerosOnEveryStream) {
  for (int round = 0; round < 4; ++round) {
    const CudaStream stream;
    const Tensor zeros = Tensor::zeros({1 << 16}, DType::f32, kGpu);
    EXPECT_THAT(values_of(zeros, stream.stream()), Each(0.0f));
    ASSERT_EQ(cudaMemsetAsync(zeros.data(), 0xff, 4 << 16, stream.handle()),
              cudaSuccess);  // for the next round
    fla::synchronize(kGpu, stream.stream());
  }
}

TEST_F(GpuMemory, EmptyTensorsHaveAnAddress) {
  EXPECT_NE(Tensor::empty({0, 4}, DType::f32, kGpu).data(), nullptr);
  EXPECT_TRUE(values_of(Tensor::zeros({0, 4}, DType::f32, kGpu)).empty());
}

TEST_F(GpuMemory, AllocatorSeesExactlyWhatIsAskedForAndGivenBack) {
  const CudaStream stream;
  const Recorder recorder;
  {
    const Tensor first = Tensor::empty({100}, DType::f32, kGpu);
    EXPECT_EQ(recorder.allocations, 1);
    EXPECT_EQ(recorder.held.at(first.data()), 400u);
    const Tensor shared = first;
    const std::shared_ptr<void> second = fla::allocate_on(kGpu, 77, stream.stream());
    EXPECT_EQ(recorder.held.at(second.get()), 77u);
    EXPECT_EQ(recorder.allocations, 2);
    EXPECT_EQ(recorder.releases, 0);
  }
  EXPECT_EQ(recorder.releases, 2);
  EXPECT_TRUE(recorder.held.empty());
  EXPECT_THAT(recorder.streams, ElementsAre(nullptr, stream.handle(), stream.handle(), nullptr));
}

TEST_F(GpuMemory, GoesBackToTheAllocatorItCameFrom) {
  Tensor before = Tensor::empty({100}, DType::f32, kGpu);
  Tensor during;
  Recorder first;
  {
    during = Tensor::empty({100}, DType::f32, kGpu);
    before = Tensor();
    EXPECT_EQ(first.releases, 0);
  }
  fla::set_device_allocator({});
  during = Tensor();
  EXPECT_EQ(first.releases, 1);
}

TEST_F(GpuMemory, AllocatorThatHasNoneLeftIsBadAlloc) {
  Recorder recorder;
  recorder.empty = true;
  EXPECT_THROW(Tensor::empty({100}, DType::f32, kGpu), std::bad_alloc);
  EXPECT_EQ(recorder.releases, 0);
}

TEST_F(GpuMemory, MoreThanTheDeviceHasIsBadAlloc) {
  EXPECT_THROW(fla::allocate_on(kGpu, std::size_t{1} << 50, {}), std::bad_alloc);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "and leaves no error behind";
}

TEST_F(GpuMemory, IsFreedInTheOrderOfItsStream) {
  // Work that was put on the stream before the memory went back still finds it: the copy below reads it after
  // the last owner is gone, and a thousand allocations that would like to have it.
  const CudaStream stream;
  constexpr std::int64_t kCount = 1 << 22;
  const std::array<std::int64_t, 1> shape{kCount};
  const std::vector<float> values = counting(kCount);
  const Tensor result = fla::empty_on(shape, DType::f32, kGpu, stream.stream());
  {
    const Tensor source = fla::copy_to({values.data(), DType::f32, {kCount}}, kGpu, stream.stream());
    for (int i = 0; i < 50; ++i) fla::copy(source, result, stream.stream());
  }
  for (int i = 0; i < 10; ++i) {
    const Tensor other = fla::empty_on(shape, DType::f32, kGpu, stream.stream());
    ASSERT_EQ(cudaMemsetAsync(other.data(), 0xff, kCount * 4, stream.handle()), cudaSuccess);
  }
  EXPECT_THAT(values_of(result, stream.stream()), ElementsAreArray(values));
}

TEST_F(GpuMemory, IsKeptForTheNextCall) {
  void* first = fla::allocate_on(kGpu, std::size_t{1} << 28, {}).get();
  fla::synchronize(kGpu);
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  std::uint64_t reserved = 0;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved), cudaSuccess);
  EXPECT_NE(first, nullptr);
  EXPECT_GE(reserved, std::uint64_t{1} << 28);
}

TEST_F(GpuMemory, ThreadsShareTheDevice) {
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([t, &right] {
      const CudaStream stream;
      bool all = true;
      for (int i = 0; i < 50; ++i) {
        const std::vector<float> values(1000, static_cast<float>(t));
        const Tensor there = fla::copy_to({values.data(), DType::f32, {1000}}, kGpu, stream.stream());
        all = all && values_of(there, stream.stream()) == values;
      }
      right[t] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, Each(true));
}

TEST_F(GpuMemory, CurrentDeviceStaysTheCallers) {
  const int last = static_cast<int>(fla::cuda_devices().size()) - 1;
  ASSERT_EQ(cudaSetDevice(last), cudaSuccess);
  Tensor::zeros({4}, DType::f32, kGpu);
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, last);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(GpuMemory, TravelsThroughDlpack) {
  const Recorder recorder;
  const std::vector<float> values = counting(12);
  Tensor tensor = fla::copy_to({values.data(), DType::f32, {3, 4}}, kGpu);
  DLManagedTensor* exported = tensor.to_dlpack();
  const auto& managed = *reinterpret_cast<const fla::dlpack::ManagedTensor*>(exported);
  EXPECT_EQ(managed.tensor.device.type, fla::dlpack::kCuda);
  EXPECT_EQ(managed.tensor.device.id, 0);
  EXPECT_EQ(managed.tensor.data, tensor.data());

  tensor = Tensor();
  {
    const Tensor imported = Tensor::from_dlpack(exported);
    EXPECT_EQ(imported.device(), kGpu);
    EXPECT_THAT(values_of(imported), ElementsAreArray(values));
    EXPECT_EQ(recorder.releases, 0) << "DLPack keeps it alive";
  }
  EXPECT_EQ(recorder.releases, 1);
}

/// Goes when the process does, after everything else; a fault there would be the test program's exit code.
Tensor until_exit;

TEST_F(GpuMemory, OutlivesMain) { until_exit = Tensor::zeros({4}, DType::f32, kGpu); }

}  // namespace
