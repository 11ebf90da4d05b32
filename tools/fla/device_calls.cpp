#include "tools/fla/device_calls.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "fla/core/cuda_error.h"
#include "fla/core/device_memory.h"
#include "fla/core/threads.h"
#include "fla/ops/recurrence/call_of.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/case.h"
#include "tools/fla/cuda_timer.h"
#include "tools/fla/random_fill.h"

namespace fla::command {
namespace {

using cases::DataKind;
using Index = std::int64_t;

constexpr std::uint64_t kSeeds = 16;  // of the tensors of one call

std::size_t bytes_of(const TensorView& tensor) {
  return tensor.defined() ? static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()) : 0;
}

/// As many calls as it takes to be four times as large as the cache; small ones would be very many.
int sets_for(double bytes, Device device) {
  constexpr double kMost = 128;
  return static_cast<int>(
      std::clamp(std::ceil(4.0 * static_cast<double>(cache_bytes(device)) / bytes), 1.0, kMost));
}

}  // namespace

Sequence tokens_of(const CudaCase& of, Index sequence) {
  if (of.lengths.empty()) return {sequence, 0, of.sizes[Axis::T]};
  Index begin = 0;
  for (Index n = 0; n < sequence; ++n) begin += of.lengths[static_cast<std::size_t>(n)];
  return {0, begin, begin + of.lengths[static_cast<std::size_t>(sequence)]};
}

Tensor bring_rows(const TensorView& tensor, const Sequence& tokens, Index head, Index heads, Stream stream) {
  const bool scalar = tensor.rank() == 3;
  const Index count = tokens.end - tokens.begin, channels = scalar ? 1 : tensor.size(3);
  Tensor rows = scalar ? Tensor::empty({1, count, heads}, tensor.dtype())
                       : Tensor::empty({1, count, heads, channels}, tensor.dtype());
  const std::size_t element = size_of(tensor.dtype()),
                    width = static_cast<std::size_t>(heads * channels) * element;
  const Index at =
      tokens.batch * tensor.stride(0) + tokens.begin * tensor.stride(1) + head * tensor.stride(2);
  if (count == 0) return rows;
  check_cuda(cudaMemcpy2DAsync(rows.data(), width, tensor.as<char>() + at * static_cast<Index>(element),
                               static_cast<std::size_t>(tensor.stride(1)) * element, width,
                               static_cast<std::size_t>(count), cudaMemcpyDeviceToHost,
                               static_cast<cudaStream_t>(stream.handle)),
             "bringing heads to the host");
  return rows;
}

template <RecurrenceArgs Args>
DeviceCalls<Args>::DeviceCalls(const CudaBenchRequest& request, const CudaCase& of, DType dtype,
                               Stream stream)
    : request_(request), case_(of), dtype_(dtype), stream_(stream) {
  calls_.push_back(make(1));
  const Args args = calls_.front().args;  // a copy: the vector grows
  validate_arguments(args);
  const recurrence::Arguments of_all = recurrence::arguments_of(args);
  for (const TensorView& tensor : {of_all.q, of_all.k, of_all.v, of_all.g, of_all.beta, of_all.a, of_all.b,
                                   of_all.out, of_all.final_state, calls_.front().initial})
    bytes_ += static_cast<double>(bytes_of(tensor));
  for (int i = 1; i < sets_for(bytes_, request.device); ++i)
    calls_.push_back(make(static_cast<std::uint64_t>(i) + 1));
  if (const std::size_t bytes = workspace_size(args); bytes > 0) {
    workspace_ = allocate_on(request.device, bytes, stream);
    check_cuda(cudaMemsetAsync(workspace_.get(), 0xff, bytes, static_cast<cudaStream_t>(stream.handle)),
               "poisoning the workspace");
    for (Call& call : calls_) call.args.workspace = {workspace_.get(), bytes};
  }
  for (int i = 0; i < size(); ++i) reset(i);
  if (!request.backward) make_samples();  // else nobody asks for these calls' errors
}

template <RecurrenceArgs Args>
Tensor DeviceCalls<Args>::place(Call& call, std::vector<Index> shape, DType dtype) const {
  call.memory.push_back(empty_on(shape, dtype, request_.device, stream_));
  return call.memory.back();
}

template <RecurrenceArgs Args>
typename DeviceCalls<Args>::Call DeviceCalls<Args>::make(std::uint64_t seed) {
  const AxisSizes& sizes = case_.sizes;
  const Index B = sizes[Axis::B], T = sizes[Axis::T], H = sizes[Axis::H], HV = sizes[Axis::HV],
              K = sizes[Axis::K], V = sizes[Axis::V];
  const Index N = case_.lengths.empty() ? B : static_cast<Index>(case_.lengths.size());
  Call call;
  Args& args = call.args;
  for (const Settings& settings : {cuda_options(Args::arguments()), request_.options}) {
    for (const auto& [name, value] : settings) cases::set_option(Args::arguments(), &args, name, value);
  }
  const recurrence::Arguments options = recurrence::arguments_of(args);
  args.state_v_first = case_.state_v_first;
  args.stream = stream_;

  std::uint64_t next = seed * kSeeds;
  const DataKind data = request_.data;
  const bool repeat = data == DataKind::repeated_keys, outside_norm = !options.use_qk_l2norm_in_kernel;
  const auto filled = [&](std::vector<Index> shape, DType dtype, RandomFill fill) {
    const Tensor tensor = place(call, std::move(shape), dtype);
    fill.seed = next++;
    fill_random(tensor, fill, stream_);
    return tensor.view();
  };
  args.q = filled({B, T, H, K}, dtype_, {.unit_rows = outside_norm});
  args.k = filled({B, T, H, K}, dtype_, {.unit_rows = outside_norm, .same_rows = repeat});
  args.v = filled({B, T, HV, V}, dtype_, {});
  const bool by_channel = Args::kOp.gate == GateKind::channel, raw_gate = options.use_gate_in_kernel;
  if constexpr (requires { args.g; }) {
    args.g = filled(by_channel ? std::vector{B, T, HV, K} : std::vector{B, T, HV}, dtype_,
                    {.filling = raw_gate ? Filling::gate : Filling::decay, .data = data});
  }
  const bool raw_beta = options.use_beta_sigmoid_in_kernel;
  if constexpr (requires { args.beta; }) {
    if (repeat) {  // the sigmoid of 30 is 1
      args.beta =
          filled({B, T, HV}, dtype_, {.filling = Filling::constant, .scale = raw_beta ? 30.0f : 1.0f});
    } else {
      args.beta = filled({B, T, HV}, dtype_, {.filling = raw_beta ? Filling::normal : Filling::sigmoid});
    }
  }
  if constexpr (requires { args.a; }) {
    // Different vectors of norms below 1: what a takes out of the state comes back smaller, elsewhere.
    args.a = filled({B, T, H, K}, dtype_, {.unit_rows = true});
    args.b = filled({B, T, H, K}, dtype_, {.scale = 0.3f / std::sqrt(static_cast<float>(K))});
  }
  if constexpr (requires { args.A_log; }) {
    if (raw_gate) {
      args.A_log = filled({HV}, DType::f32, {.scale = 0.5f});
      args.dt_bias = filled({by_channel ? HV * K : HV}, DType::f32, {.scale = 0.5f});
    }
  }
  if constexpr (requires { args.layer_idx; }) {
    if (!args.layer_idx) args.layer_idx = 1;
    if (!args.num_layers) args.num_layers = 4;
  }
  if (!case_.lengths.empty()) {
    Tensor starts = Tensor::empty({N + 1}, DType::i64);
    starts.as<Index>()[0] = 0;
    for (Index n = 0; n < N; ++n)
      starts.as<Index>()[n + 1] = starts.as<Index>()[n] + case_.lengths[static_cast<std::size_t>(n)];
    call.memory.push_back(copy_to(starts, request_.device, stream_));
    args.cu_seqlens = call.memory.back();
  }
  call.o = place(call, {B, T, HV, V}, dtype_);
  args.out = call.o;
  const std::vector<Index> state =
      args.state_v_first ? std::vector<Index>{N, HV, V, K} : std::vector<Index>{N, HV, K, V};
  call.state = place(call, state, case_.state_dtype);
  args.final_state = call.state;
  in_place_ = !request_.backward && front_door(args) == Args::kOp.recurrent;
  const Tensor initial = in_place_ ? call.state : place(call, state, case_.state_dtype);
  args.initial_state = initial;
  call.initial = args.initial_state;
  return call;
}

template <RecurrenceArgs Args>
void DeviceCalls<Args>::reset(int i) {
  const Call& call = calls_[static_cast<std::size_t>(i)];
  cudaStream_t const stream = static_cast<cudaStream_t>(stream_.handle);
  for (const Tensor& output : {call.o, call.state}) {  // all ones: NaN in every dtype
    check_cuda(cudaMemsetAsync(output.data(), 0xff, bytes_of(output), stream), "poisoning an output");
  }
  fill_random(call.initial, {.scale = 0.3f, .seed = static_cast<std::uint64_t>(i + 2) * kSeeds - 1}, stream_);
}

template <RecurrenceArgs Args>
Tensor DeviceCalls<Args>::bring_state(const TensorView& tensor, Index sequence, Index head) const {
  const Tensor state = Tensor::empty({1, 1, tensor.size(2), tensor.size(3)}, tensor.dtype());
  copy(TensorView(tensor.as<char>() + (sequence * tensor.stride(0) + head * tensor.stride(1)) *
                                          static_cast<Index>(size_of(tensor.dtype())),
                  tensor.dtype(), state.shape(), tensor.device()),
       state, stream_);
  return state;
}

template <RecurrenceArgs Args>
typename DeviceCalls<Args>::BroughtHead DeviceCalls<Args>::bring_head(const Call& call, const Sample& sample,
                                                                      std::vector<Tensor>& memory) const {
  const Args& there = call.args;
  const Index key_head = sample.head / (there.v.size(2) / there.q.size(2)), K = there.q.size(3);
  Args here = there;
  const auto keep = [&memory](Tensor tensor) {
    memory.push_back(std::move(tensor));
    return memory.back().view();
  };
  const auto part = [&](const TensorView& all, Index begin, Index count) {
    return keep(copy_to(all.slice(0, begin, count), Device{}, stream_));
  };
  here.q = keep(bring_rows(there.q, sample.tokens, key_head, 1, stream_));
  here.k = keep(bring_rows(there.k, sample.tokens, key_head, 1, stream_));
  here.v = keep(bring_rows(there.v, sample.tokens, sample.head, 1, stream_));
  if constexpr (requires { here.g; })
    here.g = keep(bring_rows(there.g, sample.tokens, sample.head, 1, stream_));
  if constexpr (requires { here.beta; })
    here.beta = keep(bring_rows(there.beta, sample.tokens, sample.head, 1, stream_));
  if constexpr (requires { here.a; }) {
    here.a = keep(bring_rows(there.a, sample.tokens, key_head, 1, stream_));
    here.b = keep(bring_rows(there.b, sample.tokens, key_head, 1, stream_));
  }
  here.initial_state = keep(bring_state(call.initial, sample.sequence, sample.head));
  if constexpr (requires { here.A_log; }) {
    const Index biases = Args::kOp.gate == GateKind::channel ? K : 1;
    if (there.A_log.defined()) here.A_log = part(there.A_log, sample.head, 1);
    if (there.dt_bias.defined()) here.dt_bias = part(there.dt_bias, sample.head * biases, biases);
  }
  here.cu_seqlens = {};
  here.out = {};
  here.final_state = {};
  here.stream = {};
  here.workspace = {};
  synchronize(request_.device, stream_);
  return {here, head_decay(call_of(there, {}), sample.head)};
}

template <RecurrenceArgs Args>
void DeviceCalls<Args>::make_samples() {
  constexpr Index kMost = 4, kMostOfShort = 16;
  const Args& args = calls_.front().args;
  const Index N = case_.lengths.empty() ? args.q.size(0) : static_cast<Index>(case_.lengths.size());
  const Index heads = N * args.v.size(2), count = std::min(heads, in_place_ ? kMostOfShort : kMost);
  std::vector<BroughtHead> heads_brought;
  std::vector<Tensor> memory;
  for (Index s = 0; s < count; ++s) {
    const Index at = count == 1 ? 0 : s * (heads - 1) / (count - 1);
    const Index sequence = at / args.v.size(2);
    samples_.push_back({sequence, at % args.v.size(2), tokens_of(case_, sequence), {}});
    heads_brought.push_back(bring_head(calls_.front(), samples_.back(), memory));
  }
  parallel_for(count, [&](Index s, int) {
    const auto at = static_cast<std::size_t>(s);
    const auto& [alone, decay] = heads_brought[at];
    RecurrenceCall call = call_of(alone, {});
    if (call.gate_kind == GateKind::head) {  // the decay depends on the head's index, which is 0 here
      call.g = {.data = const_cast<float*>(&decay)};
      call.head_gate = HeadGate::given;
    }
    samples_[at].expected =
        cases::recurrence_reference_head(call, recurrence::extras_of(recurrence::arguments_of(alone)), 0, 0);
  });
}

template <RecurrenceArgs Args>
DeviceErrors DeviceCalls<Args>::errors() const {
  const Call& call = calls_.front();
  cases::ErrorSum o, state;
  for (const Sample& sample : samples_) {
    const Tensor rows = bring_rows(call.o, sample.tokens, sample.head, 1, stream_);
    const Tensor left = bring_state(call.state, sample.sequence, sample.head);
    synchronize(request_.device, stream_);
    for (std::size_t at = 0; at < sample.expected.o.size(); ++at)
      o.add(cases::element(rows, static_cast<Index>(at)), sample.expected.o[at]);
    const Index K = call.args.q.size(3), V = call.args.v.size(3);
    for (Index k = 0; k < K; ++k) {
      for (Index v = 0; v < V; ++v) {
        const Index place = call.args.state_v_first ? v * K + k : k * V + v;
        state.add(cases::element(left, place), sample.expected.state[static_cast<std::size_t>(k * V + v)]);
      }
    }
  }
  return {o.relative(), state.relative()};
}

template <RecurrenceArgs Forward>
BackwardDeviceCalls<Forward>::BackwardDeviceCalls(const CudaBenchRequest& request, const CudaCase& of,
                                                  DType dtype, Stream stream)
    : request_(request), case_(of), stream_(stream), forward_(request, of, dtype, stream) {
  for (int i = 0; i < forward_.size(); ++i) {
    const Forward& forward = forward_[i];
    const TensorView upstream = place(forward.v.shape(), dtype),
                     of_state = place(forward.initial_state.shape(), DType::f32);
    const auto seed = static_cast<std::uint64_t>(i + 1000) * kSeeds;
    fill_random(upstream, {.seed = seed}, stream);
    fill_random(of_state, {.scale = 0.3f, .seed = seed + 1}, stream);
    Arguments args = cases::backward_call(forward, upstream, of_state);
    args.stream = stream;
    for (const Argument& argument : Arguments::arguments()) {
      if (argument.kind != ArgumentKind::output) continue;
      const TensorView& input = find_argument(Arguments::arguments(), argument.needs)->tensor(&args);
      if (input.defined()) argument.tensor(&args) = place(input.shape(), input.dtype());
    }
    calls_.push_back(args);
  }
  const Arguments args = calls_.front();
  validate_arguments(args);
  for (const Argument& argument : Arguments::arguments()) {
    if (argument.is_tensor()) bytes_ += static_cast<double>(bytes_of(argument.tensor(&args)));
  }
  const std::size_t bytes = workspace_size(args);
  workspace_ = allocate_on(request.device, bytes, stream);
  check_cuda(cudaMemsetAsync(workspace_.get(), 0xff, bytes, static_cast<cudaStream_t>(stream.handle)),
             "poisoning the workspace");
  for (Arguments& call : calls_) call.workspace = {workspace_.get(), bytes};
  for (int i = 0; i < size(); ++i) reset(i);
  make_samples();
}

template <RecurrenceArgs Forward>
TensorView BackwardDeviceCalls<Forward>::place(std::span<const Index> shape, DType dtype) {
  memory_.push_back(
      empty_on(std::vector<Index>(shape.begin(), shape.end()), dtype, request_.device, stream_));
  return memory_.back().view();
}

template <RecurrenceArgs Forward>
void BackwardDeviceCalls<Forward>::reset(int i) {
  const Arguments& args = (*this)[i];
  for (const Argument& argument : Arguments::arguments()) {
    if (argument.kind != ArgumentKind::output || !argument.given(&args)) continue;
    const TensorView& gradient = argument.tensor(&args);
    check_cuda(
        cudaMemsetAsync(gradient.data(), 0xff, bytes_of(gradient), static_cast<cudaStream_t>(stream_.handle)),
        "poisoning a gradient");
  }
}

template <RecurrenceArgs Forward>
Tensor BackwardDeviceCalls<Forward>::bring(const Argument& of, const TensorView& tensor,
                                           const Sample& at) const {
  const std::string_view shape = of.shape.text;
  const Index head = at.key_head * at.group;
  Tensor here;
  if (shape.starts_with("B T HV")) {
    here = bring_rows(tensor, at.tokens, head, at.group, stream_);
  } else if (shape.starts_with("B T")) {
    here = bring_rows(tensor, at.tokens, at.key_head, 1, stream_);
  } else if (shape.starts_with("P")) {
    here = copy_to(tensor.slice(0, at.sequence, 1).slice(1, head, at.group), Device{}, stream_);
  } else {  // parameters of value heads, however many each has
    const Index each = tensor.size(0) / case_.sizes[Axis::HV];
    here = copy_to(tensor.slice(0, head * each, at.group * each), Device{}, stream_);
  }
  synchronize(request_.device, stream_);
  return here;
}

template <RecurrenceArgs Forward>
typename BackwardDeviceCalls<Forward>::BroughtGroup BackwardDeviceCalls<Forward>::bring_group(
    const Sample& sample) const {
  BroughtGroup here{.args = calls_.front(), .memory = {}, .decays = {}};
  for (const Argument& argument : Arguments::arguments()) {
    if (!argument.is_tensor()) continue;
    TensorView& tensor = argument.tensor(static_cast<void*>(&here.args));
    const bool is_input = argument.kind == ArgumentKind::tensor && tensor.defined();
    if (is_input) here.memory.push_back(bring(argument, tensor, sample));
    tensor = is_input ? here.memory.back().view() : TensorView();
  }
  const RecurrenceCall whole = call_of(calls_.front(), RecurrenceGradients{}).call;
  if (whole.gate_kind == GateKind::head && !whole.g.data) {
    for (Index i = 0; i < sample.group; ++i)
      here.decays.push_back(head_decay(whole, sample.key_head * sample.group + i));
  }
  return here;
}

template <RecurrenceArgs Forward>
void BackwardDeviceCalls<Forward>::make_samples() {
  const Index H = case_.sizes[Axis::H],
              N = case_.lengths.empty() ? case_.sizes[Axis::B] : static_cast<Index>(case_.lengths.size());
  const Index group = case_.sizes[Axis::HV] / H;
  samples_.push_back({tokens_of(case_, 0), 0, 0, group, {}});
  if (N * H > 1) samples_.push_back({tokens_of(case_, N - 1), N - 1, H - 1, group, {}});
  std::vector<BroughtGroup> groups;
  for (const Sample& sample : samples_) groups.push_back(bring_group(sample));
  parallel_for(static_cast<Index>(groups.size()), [&](Index s, int) {
    const auto at = static_cast<std::size_t>(s);
    BackwardCall call = call_of(groups[at].args, RecurrenceGradients{});
    if (!groups[at].decays.empty()) {  // they depend on heads' indices, which are others here
      call.call.g = {.data = groups[at].decays.data(), .head = 1};
      call.call.head_gate = HeadGate::given;
    }
    samples_[at].expected = cases::gradient_reference(call);
  });
}

template <RecurrenceArgs Forward>
double BackwardDeviceCalls<Forward>::error_of(const Sample& sample) const {
  const Arguments& there = calls_.front();
  const bool is_all = case_.lengths.size() <= 1 && case_.sizes[Axis::B] == 1;
  double worst = 0;
#define FLA_INPUT(name)                                                                                      \
  if constexpr (requires { there.d##name; }) {                                                               \
    const Argument& of = *find_argument(Arguments::arguments(), "d" #name);                                  \
    const bool is_sum = of.shape.text.starts_with("HV"); /* over sequences */                                \
    if (there.d##name.defined() && (is_all || !is_sum))                                                      \
      worst =                                                                                                \
          std::max(worst, cases::gradient_error(bring(of, there.d##name, sample), sample.expected.d##name)); \
  }
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
  return worst;
}

template <RecurrenceArgs Forward>
DeviceErrors BackwardDeviceCalls<Forward>::errors() const {
  double worst = 0;
  for (const Sample& sample : samples_) worst = std::max(worst, error_of(sample));
  return {worst, 0};
}

#define FLA_OP(NAME, ARGS)          \
  template class DeviceCalls<ARGS>; \
  template class BackwardDeviceCalls<ARGS>;
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::command
