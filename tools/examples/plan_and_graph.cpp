// A choice that is made once: a plan is called without asking any backend again. On a GPU the planned call
// is captured in a CUDA graph and replayed; without one the example runs the plan on the CPU and says why.
#include <fla/fla.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string>

#ifdef EXAMPLE_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

fla::Tensor waves(std::initializer_list<std::int64_t> shape, float scale, float offset) {
  fla::Tensor tensor = fla::Tensor::empty(shape, fla::DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.as<float>()[i] = offset + scale * std::sin(static_cast<float>(i));
  return tensor;
}

float difference(const fla::Tensor& a, const fla::Tensor& b) {
  float most = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    most = std::max(most, std::abs(a.as<float>()[i] - b.as<float>()[i]));
  return most;
}

#ifdef EXAMPLE_HAS_CUDA
void expect(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

// The same call on a GPU: planned, captured, replayed.
std::string replayed(const fla::KdaArgs& host, const fla::Tensor& expected) {
  const fla::Device device{fla::DeviceType::cuda, 0};
  const std::array tensors{fla::copy_to(host.q, device), fla::copy_to(host.k, device),
                           fla::copy_to(host.v, device), fla::copy_to(host.g, device),
                           fla::copy_to(host.beta, device)};
  const fla::Tensor out = fla::Tensor::empty(expected.shape(), fla::DType::f32, device);
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  // With outputs and workspace given a call neither allocates nor waits.
  fla::KdaArgs args = host;
  args.q = tensors[0], args.k = tensors[1], args.v = tensors[2], args.g = tensors[3], args.beta = tensors[4];
  args.out = out;
  args.stream = {stream};
  const std::size_t bytes = fla::workspace_size(args);
  const auto workspace = fla::allocate_on(device, bytes, args.stream);
  args.workspace = {workspace.get(), bytes};
  const auto plan = fla::plan("kda", "chunk_kda", args);
  plan(args);  // once before: the driver loads kernels when they are first used

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  plan(args);
  expect(cudaStreamEndCapture(stream, &graph));
  expect(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) expect(cudaGraphLaunch(executable, stream));
  const fla::Tensor back = fla::copy_to(out, {}, args.stream);
  expect(cudaGraphExecDestroy(executable));
  expect(cudaGraphDestroy(graph));
  return "graph: " + std::string(plan.backend()) + " captured, replayed 3 times, off by " +
         std::to_string(difference(back, expected));
}
#else
std::string replayed(const fla::KdaArgs&, const fla::Tensor&) {
  return "graph: not captured, this example was built without the CUDA toolkit";
}
#endif

int main() {
  const std::int64_t T = 256, H = 4, D = 64;
  const fla::Tensor q = waves({1, T, H, D}, 1, 0), k = waves({1, T, H, D}, 1, 0.1f),
                    v = waves({1, T, H, D}, 1, 0), g = waves({1, T, H, D}, 0.1f, -0.2f),
                    beta = waves({1, T, H}, 0.3f, 0.5f);
  const fla::Tensor out = fla::Tensor::empty({1, T, H, D}, fla::DType::f32);
  const fla::KdaArgs args{
      .q = q, .k = k, .v = v, .g = g, .beta = beta, .use_qk_l2norm_in_kernel = true, .out = out};

  const auto plan = fla::plan("kda", "chunk_kda", args);
  for (int i = 0; i < 3; ++i) plan(args);  // contents and pointers may differ from call to call
  std::cout << "plan: " << plan.backend() << ", off by " << difference(out, fla::chunk_kda({args}).o)
            << " from the call that chooses\n";

  if (fla::cuda_devices().empty()) {
    std::cout << "graph: not captured, " << fla::why_no_cuda_device() << "\n";
  } else {
    std::cout << replayed(args, out) << "\n";
  }
}
