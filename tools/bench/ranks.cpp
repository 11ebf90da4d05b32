// fla_bench_ranks: what sequences over ranks cost. Measures on one device what a rank computes, with its
// tokens in 1, 2, 4 and 8 parts, and counts the bytes that it gives away; from that, and from the speeds of
// links that are given, it works out the time of a layer over 8 to 4,096 ranks, beside the one of heads over
// ranks, which exchange inputs and outputs all to all. --help lists the options.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fla/core/cuda_devices.h"
#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/distributed/ops.h"
#include "fla/ops/merge/merge.h"
#include "tools/bench/links.h"
#include "tools/bench/seconds.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/with_op.h"
#include "tools/fla/text_table.h"

namespace {

using fla::Device;
using fla::Stream;
using fla::Tensor;
using fla::TensorView;
using fla::bench::Links;
using fla::bench::seconds;
using fla::command::formatted;
using fla::distributed::Context;
using fla::distributed::Placement;

struct Shape {
  std::int64_t tokens = 8192, heads = 32, K = 128, V = 128;
  fla::DType dtype = fla::DType::bf16;
};

template <class Args>
struct OverRanks;
#define FLA_OP(NAME, ARGS)                                                       \
  template <>                                                                    \
  struct OverRanks<fla::ARGS> {                                                  \
    static constexpr auto forward = &fla::distributed::chunk_##NAME;             \
    static constexpr auto backward = &fla::distributed::chunk_##NAME##_backward; \
  };
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// One rank, which gives its blocks to itself.
class Loopback final : public fla::distributed::Transport {
 public:
  explicit Loopback(Device device) : device_(device) {}
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  Device device() const override { return device_; }
  Tensor all_gather(Tensor mine, std::span<const std::int64_t>, Stream) override { return mine; }

 private:
  Device device_;
};

/// A call with its tensors on the device.
template <class Args>
struct OnDevice {
  OnDevice(const Args& host, Device device) : args(host) {
    for (const fla::Argument& argument : Args::arguments()) {
      if (!argument.is_tensor() || !argument.tensor(&args).defined()) continue;
      memory.push_back(fla::copy_to(argument.tensor(&args), device));
      argument.tensor(&args) = memory.back();
    }
  }
  Args args;
  std::vector<Tensor> memory;
};

/// The call of one of `ranks` that have all tokens of their heads, over the same memory: as many tokens more
/// as heads fewer.
template <class Args>
Args with_fewer_heads(Args args, std::int64_t ranks) {
  for (const fla::Argument& argument : Args::arguments()) {
    if (!argument.is_tensor() || !argument.tensor(&args).defined()) continue;
    TensorView& tensor = argument.tensor(&args);
    const fla::ShapeRule& rule = argument.shape.first;
    if (rule.rank >= 3 && rule.dims[1].axis == fla::Axis::T) {
      std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
      shape[1] *= ranks, shape[2] /= ranks;
      tensor = TensorView(tensor.data(), tensor.dtype(), shape, tensor.device());
    } else {
      const int axis = tensor.rank() > 1 ? 1 : 0;  // of states, or of a number a head
      tensor = tensor.slice(axis, 0, tensor.size(axis) / ranks);
    }
  }
  return args;
}

std::int64_t bytes_of(const TensorView& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<std::int64_t>(fla::size_of(tensor.dtype())) : 0;
}

/// Seconds of a function and of its gradients.
struct Both {
  double forward = 0, backward = 0;
};

std::string milliseconds(double seconds) { return formatted("%.4g", 1e3 * seconds); }

template <class Args>
class Bench {
 public:
  Bench(const Shape& shape, Device device)
      : shape_(shape),
        device_(device),
        made_(
            {.B = 1, .T = shape.tokens, .H = shape.heads, .K = shape.K, .V = shape.V, .dtype = shape.dtype}),
        forward_(made_.forward.args, device),
        backward_(made_.args, device) {}

  void run(const Links& links) const {
    using Functions = fla::cases::Functions<Args>;
    std::printf("%s, B1 T%lld H%lld K%lld V%lld a rank, %s, %s; chunk_%s by %s, its gradients by %s\n\n",
                std::string(Args::kOp.name).c_str(), static_cast<long long>(shape_.tokens),
                static_cast<long long>(shape_.heads), static_cast<long long>(shape_.K),
                static_cast<long long>(shape_.V), std::string(fla::name_of(shape_.dtype)).c_str(),
                device_.is_cpu() ? "cpu" : fla::find_cuda_device(device_)->name.c_str(),
                std::string(Args::kOp.name).c_str(), selected(forward_.args).c_str(),
                selected(backward_.args).c_str());
    print_parts();

    const Both call = both(forward_.args, backward_.args);
    const auto forward_summary = fla::arguments_like<typename Args::Summary>(forward_.args);
    const auto backward_summary = fla::arguments_like<typename Args::Summary>(backward_.args);
    const Both summary{seconds_of(Functions::summary, inside(forward_summary)),
                       seconds_of(Functions::summary, inside(backward_summary))};
    const double first_merge = merge_seconds(1), more = (merge_seconds(9) - first_merge) / 8;
    fla::command::TextTable table({"of a rank", "forward, ms", "backward, ms"});
    table.add({"call", milliseconds(call.forward), milliseconds(call.backward)});
    table.add({"summary", milliseconds(summary.forward), milliseconds(summary.backward)});
    table.add({"merge of one summary", milliseconds(first_merge), milliseconds(first_merge)});
    table.add({"each more", milliseconds(more), milliseconds(more)});
    std::printf("%s\n", table.text().c_str());
    print_plan(links, call, summary, [=](std::int64_t summaries) {
      return first_merge + static_cast<double>(summaries - 1) * more;
    });
  }

 private:
  template <class Call>
  static std::string selected(const Call& args) {
    constexpr bool is_backward = requires { args.do_; };
    return fla::explain(Args::kOp.name, is_backward ? Args::kOp.backward : Args::kOp.chunk, args).selected;
  }

  /// One in the middle of its sequence: P counts, and nothing comes in.
  template <class Summary>
  static Summary inside(Summary args) {
    args.initial_state = args.dht = {};
    args.output_P = true;
    return args;
  }

  template <class Function, class Call>
  double seconds_of(Function function, Call args) const {
    return seconds(device_, [&](Stream stream) {
      args.stream = stream;
      (void)function(args);
    });
  }

  Both both(const Args& forward, const typename Args::Backward& backward) const {
    using Functions = fla::cases::Functions<Args>;
    return {seconds_of(Functions::chunk, forward), seconds_of(Functions::backward, backward)};
  }

  static constexpr bool kDiagonal = Args::kOp.rule == fla::Rule::additive;

  std::int64_t block_bytes() const {
    return shape_.heads * shape_.K * (shape_.V + (kDiagonal ? 1 : shape_.K)) * 4;
  }

  double merge_seconds(std::int64_t summaries) const {
    const auto [tokens, heads, K, V, dtype] = shape_;
    const Tensor R = zeros({summaries, 1, heads, K, V}), state = zeros({1, heads, K, V}),
                 P = kDiagonal ? zeros({summaries, 1, heads, K}) : zeros({summaries, 1, heads, K, K});
    return seconds_of(&fla::merge,
                      fla::MergeArgs{.R = R, .P = P, .initial_state = state, .final_state = state});
  }

  Tensor zeros(const std::vector<std::int64_t>& shape) const {
    return Tensor::zeros(shape, fla::DType::f32, device_);
  }

  /// The rank's tokens as one sequence in several parts, all of which it has: every part but the last is
  /// summed up, and its summary is applied to those behind it.
  void print_parts() const {
    fla::command::TextTable table({"parts", "tokens a part", "forward, ms", "of one part", "backward, ms",
                                   "of one part", "bytes given away each way"});
    Both whole;
    for (const std::int64_t parts : {1, 2, 4, 8}) {
      Placement placement{{0}, std::vector<int>(static_cast<std::size_t>(parts), 0)};
      for (std::int64_t part = 1; part <= parts; ++part)
        placement.cuts.push_back(shape_.tokens * part / parts);
      const std::array<std::int64_t, 2> starts{0, shape_.tokens};
      Context context(std::make_unique<Loopback>(device_), starts, placement);
      Args forward = forward_.args;
      typename Args::Backward backward = backward_.args;
      forward.initial_state = backward.initial_state = backward.dht = {};
      const fla::distributed::Result result = OverRanks<Args>::forward(context, forward);
      backward.initial_state = result.initial_state;
      const std::int64_t bytes = context.bytes_sent();
      const Both time{
          seconds_of([&](const Args& args) { return OverRanks<Args>::forward(context, args); }, forward),
          seconds_of(
              [&](const typename Args::Backward& args) { return OverRanks<Args>::backward(context, args); },
              backward)};
      if (parts == 1) whole = time;
      table.add({std::to_string(parts), std::to_string(shape_.tokens / parts), milliseconds(time.forward),
                 formatted("%.2fx", time.forward / whole.forward), milliseconds(time.backward),
                 formatted("%.2fx", time.backward / whole.backward), std::to_string(bytes)});
    }
    std::printf("%s\n", table.text().c_str());
  }

  /// Of heads over ranks, by the number of ranks, which the heads can be shared out to.
  std::map<std::int64_t, Both> heads_over_ranks() const {
    std::map<std::int64_t, Both> found;
    for (std::int64_t ranks = 8; shape_.heads % ranks == 0; ranks *= 2) {
      found[ranks] = both(with_fewer_heads(forward_.args, ranks), with_fewer_heads(backward_.args, ranks));
    }
    return found;
  }

  void print_plan(const Links& links, const Both& call, const Both& summary,
                  const std::function<double(std::int64_t)>& merge_seconds_of) const {
    const auto block = static_cast<double>(block_bytes());
    const Args& args = forward_.args;
    double inputs = 0;
    for (const fla::Argument& argument : Args::arguments()) {
      if (argument.is_tensor() && argument.shape.first.rank >= 3 &&
          argument.shape.first.dims[1].axis == fla::Axis::T)
        inputs += static_cast<double>(bytes_of(argument.tensor(&args)));
    }
    const auto outputs = static_cast<double>(bytes_of(args.v));  // o is like v
    const std::map<std::int64_t, Both> shared = heads_over_ranks();
    std::printf(
        "links of a GPU, each way: %.4g GB/s to the %lld of its node after %.4g us, %.4g GB/s to others "
        "after %.4g us\n"
        "a summary has %.0f bytes; all-to-all moves %.0f bytes of inputs and %.0f of outputs a rank\n\n",
        links.nvlink * 1e-9, static_cast<long long>(links.node), links.nvlink_step * 1e6,
        links.infiniband * 1e-9, links.infiniband_step * 1e6, block, inputs, outputs);
    fla::command::TextTable table({"ranks", "tokens", "gathered, MB", "exchange, ms", "forward, ms",
                                   "with backward, ms", "all-to-all, ms", "heads: forward, ms",
                                   "heads: with backward, ms"});
    for (std::int64_t ranks = 8; ranks <= 4096; ranks *= 2) {
      const double gather = all_gather_seconds(links, ranks, block);
      const double merges = merge_seconds_of(ranks - 1);  // of the last rank; of the first backward
      const double forward = summary.forward + gather + merges + call.forward;
      const double with_backward = forward + summary.backward + gather + merges + call.backward;
      std::vector<std::string> row{std::to_string(ranks),
                                   std::to_string(ranks * shape_.tokens),
                                   formatted("%.4g", static_cast<double>(ranks) * block * 1e-6),
                                   milliseconds(gather),
                                   milliseconds(forward),
                                   milliseconds(with_backward)};
      if (const auto found = shared.find(ranks); found != shared.end()) {
        const double both_ways =
            all_to_all_seconds(links, ranks, inputs) + all_to_all_seconds(links, ranks, outputs);
        const double of_heads = both_ways + found->second.forward;
        row.insert(row.end(), {milliseconds(both_ways), milliseconds(of_heads),
                               milliseconds(of_heads + both_ways + found->second.backward)});
      } else {
        row.insert(row.end(), {"-", "-", "-"});  // more ranks than heads
      }
      table.add(row);
    }
    std::printf("%s", table.text().c_str());
  }

  Shape shape_;
  Device device_;
  fla::cases::BackwardCase<Args> made_;
  OnDevice<Args> forward_;
  OnDevice<typename Args::Backward> backward_;
};

int run(int argc, char** argv) {
  CLI::App app("What sequences over ranks cost: measured on one device, worked out for 8 to 4,096 ranks.");
  Shape shape;
  Links links;
  std::string op = "kda", device = "cpu";
  double nvlink = links.nvlink * 1e-9, infiniband = links.infiniband * 1e-9,
         nvlink_step = links.nvlink_step * 1e6, infiniband_step = links.infiniband_step * 1e6;
  const std::map<std::string, fla::DType> dtypes{
      {"f32", fla::DType::f32}, {"bf16", fla::DType::bf16}, {"f16", fla::DType::f16}};
  app.add_option("--op", op, "an op of the family")->capture_default_str();
  app.add_option("--device", device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--tokens", shape.tokens, "of a rank")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--heads", shape.heads, "of the layer")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--keys", shape.K, "channels of a key")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--values", shape.V, "channels of a value")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--dtype", shape.dtype, "of q, k and v")
      ->transform(CLI::CheckedTransformer(dtypes))
      ->default_str("bf16");
  app.add_option("--node", links.node, "GPUs a node")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--nvlink", nvlink, "GB/s of a GPU within its node, each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--infiniband", infiniband, "GB/s of a GPU to other nodes, each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--nvlink-step", nvlink_step, "microseconds before the first byte")->capture_default_str();
  app.add_option("--infiniband-step", infiniband_step, "the same between nodes")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  links.nvlink = nvlink * 1e9, links.infiniband = infiniband * 1e9;
  links.nvlink_step = nvlink_step * 1e-6, links.infiniband_step = infiniband_step * 1e-6;
  const std::optional<Device> on = fla::device_from_name(device);
  if (!on) throw fla::InvalidArgument("--device", "expected cpu, cuda or cuda:N, got '" + device + "'");
  (void)fla::allocate_on(*on, 1, {});  // or says why that device is not there
  fla::cases::with_op(op, [&]<class Args>(std::type_identity<Args>) { Bench<Args>(shape, *on).run(links); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fla_bench_ranks: %s\n", error.what());
    return 2;
  }
}
