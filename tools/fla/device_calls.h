#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fla/core/tensor.h"
#include "fla/ops/ops.h"
#include "tools/cases/recurrence_reference.h"
#include "tools/cases/with_op.h"
#include "tools/fla/bench_cuda.h"

/// The calls of one case of a benchmark on a GPU. Only in builds with CUDA.
namespace fla::command {

/// How far a result is from the reference.
struct DeviceErrors {
  double o, state;
};

/// [begin, end) of some heads as a tensor [1, tokens, heads, channels] or [1, tokens, heads] on the host,
/// once the stream has been waited for.
Tensor bring_rows(const TensorView& tensor, const Sequence& tokens, std::int64_t head, std::int64_t heads,
                  Stream stream);

/// The tokens of a case's sequence.
Sequence tokens_of(const CudaCase& of, std::int64_t sequence);

/// Calls of one shape on random tensors of their own, with memory for their results and one workspace for
/// all: so many that together they are far larger than the device's cache. Short calls update their state in
/// place, as decoding does, but for those that gradients are asked of. Everything is put on the one stream,
/// which must outlive this.
template <RecurrenceArgs Args>
class DeviceCalls {
 public:
  using Arguments = Args;
  DeviceCalls(const CudaBenchRequest& request, const CudaCase& of, DType dtype, Stream stream);

  int size() const { return static_cast<int>(calls_.size()); }
  const Args& operator[](int i) const { return calls_[static_cast<std::size_t>(i)].args; }
  static void run(const Args& args, std::string_view function) {
    static_cast<void>(cases::Functions<Args>::called(function)(args));
  }
  bool in_place() const { return in_place_; }
  /// What one call has to read and write once.
  double bytes() const { return bytes_; }

  /// The states as they were at first; outputs full of NaN.
  void reset(int i);

  /// What call 0, made once since its reset, left in its outputs, against the float64 reference on a few
  /// heads that are spread over the call. Waits for the stream.
  DeviceErrors errors() const;

 private:
  struct Call {
    Args args;
    std::vector<Tensor> memory;
    Tensor o, state;
    TensorView initial;
  };
  /// A head of a sequence of call 0, and what the reference makes of it.
  struct Sample {
    std::int64_t sequence, head;
    Sequence tokens;
    cases::ReferenceHead expected;
  };

  Call make(std::uint64_t seed);
  Tensor place(Call& call, std::vector<std::int64_t> shape, DType dtype) const;
  Tensor bring_state(const TensorView& tensor, std::int64_t sequence, std::int64_t head) const;
  /// A sample as a call of one head.
  struct BroughtHead {
    Args args;
    float decay;  ///< of a head whose call has no gate
  };
  BroughtHead bring_head(const Call& call, const Sample& sample, std::vector<Tensor>& memory) const;
  void make_samples();

  const CudaBenchRequest& request_;
  const CudaCase& case_;
  DType dtype_;
  Stream stream_;
  std::vector<Call> calls_;
  std::shared_ptr<void> workspace_;
  bool in_place_ = false;
  double bytes_ = 0;
  std::vector<Sample> samples_;
};

/// The backward calls of such calls, with random gradients of their results and memory for those of their
/// inputs.
template <RecurrenceArgs Forward>
class BackwardDeviceCalls {
 public:
  using Arguments = typename Forward::Backward;
  BackwardDeviceCalls(const CudaBenchRequest& request, const CudaCase& of, DType dtype, Stream stream);

  int size() const { return static_cast<int>(calls_.size()); }
  const Arguments& operator[](int i) const { return calls_[static_cast<std::size_t>(i)]; }
  static void run(const Arguments& args, std::string_view /*function*/) {
    static_cast<void>(cases::Functions<Forward>::backward(args));
  }
  /// The forward call that call i belongs to.
  void run_forward(int i) const { static_cast<void>(cases::Functions<Forward>::chunk(forward_[i])); }
  bool in_place() const { return false; }
  double bytes() const { return bytes_; }

  /// Gradients full of NaN.
  void reset(int i);

  /// The worst of the gradients that call 0 left, as `o`, against the float64 reference on the value heads of
  /// one or two key heads. Waits for the stream.
  DeviceErrors errors() const;

 private:
  /// One key head of a sequence of call 0 and its value heads, and what the reference makes of them.
  struct Sample {
    Sequence tokens;
    std::int64_t sequence, key_head, group;
    cases::GradientReference expected;
  };
  /// A sample as a call of its own on the host.
  struct BroughtGroup {
    Arguments args;
    std::vector<Tensor> memory;
    std::vector<float> decays;  ///< of its value heads, where the call has no gate
  };
  TensorView place(std::span<const std::int64_t> shape, DType dtype);
  Tensor bring(const Argument& of, const TensorView& tensor, const Sample& sample) const;
  BroughtGroup bring_group(const Sample& sample) const;
  void make_samples();
  double error_of(const Sample& sample) const;

  const CudaBenchRequest& request_;
  const CudaCase& case_;
  Stream stream_;
  DeviceCalls<Forward> forward_;
  std::vector<Tensor> memory_;
  std::vector<Arguments> calls_;
  std::shared_ptr<void> workspace_;
  double bytes_ = 0;
  std::vector<Sample> samples_;
};

}  // namespace fla::command
