// A decode step whose choice is made once: a plan is called without asking any backend again. On a GPU the
// planned step is captured in a CUDA graph and replayed; without one the example says why it is not.
#include <fla/fla.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>

#ifdef EXAMPLE_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

constexpr std::int64_t kRequests = 3, kSlots = 8, kHeads = 4, kChannels = 64;
constexpr int kSteps = 4;

// One token of each request, and the pool that has their states.
struct Step {
  fla::Tensor q, k, v, g, beta, slots, pool, out;

  fla::KdaArgs args() const {
    return {.q = q,
            .k = k,
            .v = v,
            .g = g,
            .beta = beta,
            .initial_state = pool,
            .use_qk_l2norm_in_kernel = true,
            .state_indices = slots,
            .out = out,
            .final_state = pool};
  }

  Step on(fla::Device device) const {
    const auto copy = [device](const fla::Tensor& tensor) { return fla::copy_to(tensor, device); };
    return {copy(q), copy(k), copy(v), copy(g), copy(beta), copy(slots), copy(pool), copy(out)};
  }
};

fla::Tensor waves(std::initializer_list<std::int64_t> shape, float scale, float offset) {
  fla::Tensor tensor = fla::Tensor::empty(shape, fla::DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.as<float>()[i] = offset + scale * std::sin(static_cast<float>(i));
  return tensor;
}

// An engine would write new tokens before each step; here they stay, and the states change.
Step first_step() {
  const auto token = [](float scale, float offset) {
    return waves({kRequests, 1, kHeads, kChannels}, scale, offset);
  };
  Step step{.q = token(1, 0),
            .k = token(1, 0.1f),
            .v = token(1, 0),
            .g = token(0.1f, -0.2f),
            .beta = waves({kRequests, 1, kHeads}, 0.3f, 0.5f),
            .slots = fla::Tensor::empty({kRequests}, fla::DType::i32),
            .pool = fla::Tensor::zeros({kSlots, kHeads, kChannels, kChannels}, fla::DType::f32),
            .out = token(0, 0)};
  const std::int32_t slots[kRequests] = {5, 2, -1};  // of the pool; the third request is skipped
  std::copy_n(slots, kRequests, step.slots.as<std::int32_t>());
  return step;
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

// The same steps on a GPU: the first as a call, the others as replays of a graph.
std::string replayed(const fla::Tensor& expected) {
  const fla::Device device = fla::Device::cuda(0);
  const Step step = first_step().on(device);
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  // With outputs and workspace given a call neither allocates nor waits.
  fla::KdaArgs args = step.args();
  args.stream = {stream};
  const std::size_t bytes = fla::workspace_size(args);
  const auto workspace = fla::allocate_on(device, bytes, args.stream);
  args.workspace = {workspace.get(), bytes};
  const auto plan = fla::plan("kda", "kda", args);
  plan(args);  // once before: the driver loads kernels when they are first used

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  plan(args);
  expect(cudaStreamEndCapture(stream, &graph));
  expect(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 1; i < kSteps; ++i) expect(cudaGraphLaunch(executable, stream));
  const fla::Tensor out = fla::copy_to(step.out, fla::Device::cpu(), args.stream);
  expect(cudaGraphExecDestroy(executable));
  expect(cudaGraphDestroy(graph));
  return "graph: " + std::string(plan.backend()) + " captured, replayed " + std::to_string(kSteps - 1) +
         " times, off by " + std::to_string(difference(out, expected));
}
#else
std::string replayed(const fla::Tensor&) {
  return "graph: not captured, this example was built without the CUDA toolkit";
}
#endif

int main() {
  const Step chosen = first_step(), planned = first_step();
  for (int i = 0; i < kSteps; ++i) fla::kda(chosen.args());

  const fla::KdaArgs args = planned.args();
  const auto plan = fla::plan("kda", "kda", args);
  for (int i = 0; i < kSteps; ++i) plan(args);  // pointers and contents may differ from call to call
  std::cout << "plan: " << plan.backend() << ", off by " << difference(planned.out, chosen.out)
            << " from calls that choose\n";

  if (fla::cuda_devices().empty()) {
    std::cout << "graph: not captured, " << fla::why_no_cuda_device() << "\n";
  } else {
    std::cout << replayed(chosen.out) << "\n";
  }
}
