#include "tools/cases/random_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "fla/ops/common/rows.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"

namespace fla::cases {
namespace {

constexpr std::array<std::string_view, kAllDataKinds.size()> kNames{
    "random", "bound", "slow", "strong", "resets", "repeated_keys", "mixed"};

constexpr std::int64_t kForeignColumns = 5;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

/// Calls fill(token, head, row) for every [batch, token, head] of a tensor of rank 3 or 4 and stores the row.
template <class Fill>
void fill_rows(const TensorView& tensor, Fill&& fill) {
  const bool scalar = tensor.rank() == 3;
  std::vector<float> row(static_cast<std::size_t>(scalar ? 1 : tensor.size(3)));
  for (std::int64_t b = 0; b < tensor.size(0); ++b) {
    for (std::int64_t t = 0; t < tensor.size(1); ++t) {
      for (std::int64_t h = 0; h < tensor.size(2); ++h) {
        fill(t, h, row);
        const std::int64_t at = b * tensor.stride(0) + t * tensor.stride(1) + h * tensor.stride(2);
        common::store_row(tensor, at, scalar ? 0 : tensor.stride(3), static_cast<std::int64_t>(row.size()),
                          row.data());
      }
    }
  }
}

void fill_all(const TensorView& tensor, auto&& next) {
  const std::int64_t count = tensor.numel();
  for (std::int64_t i = 0; i < count; ++i) store(tensor, i, next());
}

/// scale times random numbers. States have so many that they are stored by a loop of their own.
void fill_normal(const TensorView& tensor, float scale, Random& random) {
  const std::int64_t count = tensor.numel();
  common::with_float_type(tensor.dtype(), [&]<class T>(T*) {
    T* const to = tensor.as<T>();
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_float<T>(scale * random.normal());
  });
}

void normalise(std::vector<float>& row) {
  double sum = 1e-6;
  for (const float x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  for (float& x : row) x = static_cast<float>(static_cast<double>(x) / std::sqrt(sum));
}

/// The log-decay of one channel.
float decay(DataKind data, std::size_t channel, Random& random) {
  switch (data) {
    case DataKind::random: return -5 * sigmoid(random.normal());
    case DataKind::bound: return -5;
    case DataKind::slow: return -0.01f * random.uniform();
    case DataKind::strong: return -125 * random.uniform();
    case DataKind::resets: return random.chance(0.03f) ? -100.0f : -0.01f * random.uniform();
    case DataKind::repeated_keys: return 0;
    case DataKind::mixed: return channel / 16 % 4 == 0 ? -20 * random.uniform() : -0.05f * random.uniform();
  }
  return 0;
}

/// What the gate in the kernel makes a decay of the same character from. Large values saturate a lower-bound
/// gate and are decays of their own size with the softplus gate.
float raw_gate(DataKind data, std::size_t channel, Random& random) {
  const float slow = random.normal() - 8;
  switch (data) {
    case DataKind::random: return random.normal();
    case DataKind::bound: return 30;
    case DataKind::slow: return slow;
    case DataKind::strong: return 100 * random.uniform();
    case DataKind::resets: return random.chance(0.03f) ? 100.0f : slow;
    case DataKind::repeated_keys: return -60;
    case DataKind::mixed: return channel / 16 % 4 == 0 ? 20 * random.uniform() : slow;
  }
  return 0;
}

template <RecurrenceArgs Args>
class Builder {
 public:
  explicit Builder(const CaseSpec<Args>& spec) : spec_(spec), random_(spec.seed) {
    if (spec_.HV == 0) spec_.HV = spec_.H;
    if (!spec_.lengths.empty()) {
      spec_.B = 1;
      spec_.T = std::accumulate(spec_.lengths.begin(), spec_.lengths.end(), std::int64_t{0});
    }
    made_.args = spec_.options;
    if constexpr (requires(Args args) { args.layer_idx; }) {
      if (!made_.args.layer_idx) made_.args.layer_idx = 1;
      if (!made_.args.num_layers) made_.args.num_layers = 4;
    }
  }

  RandomCase<Args> make() {
    place_tokens();
    fill_qkv();
    fill_gates();
    fill_pair();
    if (!spec_.lengths.empty()) pack();
    if (spec_.initial_state) made_.args.initial_state = make_states();
    if (spec_.pool) choose_slots();
    if (spec_.checkpoint_indices) {
      choose_kept();
    } else if (made_.args.checkpoint_every) {
      made_.args.checkpoints = make_tensor(
          {sequences(), spec_.checkpoints, spec_.HV, state_rows(), state_columns()}, spec_.checkpoint_dtype);
      fill_all(made_.args.checkpoints, [] { return 0.125f; });
    }
    return std::move(made_);
  }

 private:
  TensorView make_tensor(std::initializer_list<std::int64_t> shape, DType dtype) {
    made_.memory.push_back(Tensor::empty(shape, dtype));
    return made_.memory.back();
  }

  static constexpr bool kHasGate = requires(Args args) { args.g; };
  static constexpr bool kHasHeadGate = requires(Args args) { args.g_gamma; };
  static constexpr bool kHasBeta = requires(Args args) { args.beta; };
  static constexpr bool kHasPair = requires(Args args) { args.a; };

  /// With the options that the op does not have as well.
  recurrence::Arguments options() const { return recurrence::arguments_of(made_.args); }

  /// q, k, v, g, beta, a, b: each in memory of its own, or neighbours in one row a token as a fused
  /// projection leaves them.
  void place_tokens() {
    const auto [B, T, H, HV, K, V] = std::tuple(spec_.B, spec_.T, spec_.H, spec_.HV, spec_.K, spec_.V);
    Args& args = made_.args;
    struct Part {
      TensorView* view;
      DType dtype;
      std::int64_t heads, channels;  // 0 channels: a tensor of rank 3
    };
    std::vector<Part> parts{
        {&args.q, spec_.dtype, H, K}, {&args.k, spec_.dtype, H, K}, {&args.v, spec_.dtype, HV, V}};
    const std::int64_t gates = Args::kOp.gate == GateKind::channel ? K : 0;
    if constexpr (kHasGate) {
      if (!spec_.head_gates) parts.push_back({&args.g, spec_.gate_dtype, HV, gates});
    }
    if constexpr (kHasBeta) parts.push_back({&args.beta, spec_.gate_dtype, HV, 0});
    if constexpr (kHasPair) {
      parts.push_back({&args.a, spec_.dtype, H, K});
      parts.push_back({&args.b, spec_.dtype, H, K});
    }
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      std::int64_t width = 0;
      for (const Part& part : parts) {
        if (part.dtype == dtype) width += part.heads * std::max<std::int64_t>(part.channels, 1);
      }
      if (width == 0) continue;
      TensorView fused;
      std::int64_t column = 0;
      if (spec_.fused_projection) {
        // The last columns belong to no argument: a kernel that reads them shows.
        width += kForeignColumns;
        fused = make_tensor({B, T, width}, dtype);
        fill_all(fused, [] { return std::numeric_limits<float>::quiet_NaN(); });
      }
      for (const Part& part : parts) {
        if (part.dtype != dtype) continue;
        const std::int64_t row =
            spec_.fused_projection ? width : part.heads * std::max<std::int64_t>(part.channels, 1);
        if (!spec_.fused_projection) column = 0, fused = make_tensor({B, T, row}, dtype);
        const char* data = fused.as<char>() + column * static_cast<std::int64_t>(size_of(dtype));
        if (part.channels == 0) {
          *part.view = TensorView(data, dtype, std::array{B, T, part.heads},
                                  std::array<std::int64_t, 3>{T * row, row, 1});
        } else {
          *part.view = TensorView(data, dtype, std::array{B, T, part.heads, part.channels},
                                  std::array<std::int64_t, 4>{T * row, row, part.channels, 1});
        }
        column += part.heads * std::max<std::int64_t>(part.channels, 1);
      }
    }
  }

  void fill_qkv() {
    const bool repeat = spec_.data == DataKind::repeated_keys;
    const bool positive = options().normalize, unit_rows = !options().use_qk_l2norm_in_kernel;
    const auto normal_row = [&](std::int64_t, std::int64_t, std::vector<float>& row) {
      for (float& x : row) x = positive ? std::fabs(random_.normal()) : random_.normal();
      if (unit_rows) normalise(row);
    };
    fill_rows(made_.args.q, normal_row);
    std::vector<std::vector<float>> first(static_cast<std::size_t>(spec_.H));
    fill_rows(made_.args.k, [&](std::int64_t t, std::int64_t h, std::vector<float>& row) {
      std::vector<float>& kept = first[static_cast<std::size_t>(h)];
      if (repeat && !kept.empty()) {
        row = kept;
      } else {
        normal_row(t, h, row);
        kept = row;
      }
    });
    fill_rows(made_.args.v, [&](std::int64_t, std::int64_t, std::vector<float>& row) {
      for (float& x : row) x = random_.normal();
    });
  }

  void fill_gates() {
    Args& args = made_.args;
    const bool repeat = spec_.data == DataKind::repeated_keys;
    if constexpr (kHasGate) {
      const bool raw = options().use_gate_in_kernel;
      const auto gate = [&](std::size_t channel) {
        return raw ? raw_gate(spec_.data, channel, random_) : decay(spec_.data, channel, random_);
      };
      if constexpr (kHasHeadGate) {
        if (spec_.head_gates) {
          args.g_gamma = make_tensor({spec_.HV}, spec_.gate_dtype);
          fill_all(args.g_gamma, [&] { return gate(0); });
        }
      }
      if (args.g.defined()) {
        fill_rows(args.g, [&](std::int64_t, std::int64_t, std::vector<float>& row) {
          for (std::size_t i = 0; i < row.size(); ++i) row[i] = gate(i);
        });
      }
    }
    if constexpr (kHasBeta) {
      const bool raw_beta = options().use_beta_sigmoid_in_kernel;
      fill_rows(args.beta, [&](std::int64_t, std::int64_t, std::vector<float>& row) {
        const float raw = repeat ? 30.0f : random_.normal();  // the sigmoid of 30 is 1
        row[0] = raw_beta ? raw : repeat ? 1.0f : sigmoid(raw);
      });
    }
    if constexpr (requires { args.A_log; }) {
      if (!args.use_gate_in_kernel) return;
      args.A_log = make_tensor({spec_.HV}, DType::f32);
      fill_normal(args.A_log, 0.5f, random_);
      args.dt_bias =
          make_tensor({spec_.HV * (Args::kOp.gate == GateKind::channel ? spec_.K : 1)}, DType::f32);
      fill_normal(args.dt_bias, 0.5f, random_);
    }
  }

  /// b = -w a with w below 1 and a of norm 1: what a takes out of the state does not come back larger.
  void fill_pair() {
    if constexpr (kHasPair) {
      std::vector<std::vector<float>> rows;
      fill_rows(made_.args.a, [&](std::int64_t, std::int64_t, std::vector<float>& row) {
        for (float& x : row) x = random_.normal();
        normalise(row);
        rows.push_back(row);
      });
      std::size_t next = 0;
      fill_rows(made_.args.b, [&](std::int64_t, std::int64_t, std::vector<float>& row) {
        const float weight = sigmoid(random_.normal());
        row = rows[next++];
        for (float& x : row) x *= -weight;
      });
    }
  }

  TensorView make_indices(const std::vector<std::int64_t>& entries) {
    const TensorView made = make_tensor({static_cast<std::int64_t>(entries.size())}, spec_.index_dtype);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (spec_.index_dtype == DType::i32) {
        made.as<std::int32_t>()[i] = static_cast<std::int32_t>(entries[i]);
      } else {
        made.as<std::int64_t>()[i] = entries[i];
      }
    }
    return made;
  }

  void pack() {
    std::vector<std::int64_t> starts{0};
    for (const std::int64_t length : spec_.lengths) starts.push_back(starts.back() + length);
    made_.args.cu_seqlens = make_indices(starts);
  }

  std::int64_t sequences() const {
    return spec_.lengths.empty() ? spec_.B : static_cast<std::int64_t>(spec_.lengths.size());
  }

  std::int64_t state_rows() const { return made_.args.state_v_first ? spec_.V : spec_.K; }
  std::int64_t state_columns() const { return made_.args.state_v_first ? spec_.K : spec_.V; }

  TensorView make_states() {
    const TensorView states = make_tensor(
        {spec_.pool.value_or(sequences()), spec_.HV, state_rows(), state_columns()}, spec_.state_dtype);
    fill_normal(states, 0.3f, random_);
    return states;
  }

  /// A slot that nobody has; negative: there is none left.
  std::int64_t take() {
    if (free_.empty()) return -1;
    std::swap(free_.back(), free_[static_cast<std::size_t>(random_.between(0, std::ssize(free_) - 1))]);
    const std::int64_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void choose_slots() {
    Args& args = made_.args;
    free_.resize(static_cast<std::size_t>(*spec_.pool));
    std::iota(free_.begin(), free_.end(), 0);
    std::vector<std::int64_t> read, write;
    for (std::int64_t n = 0; n < sequences(); ++n) {
      const bool share = spec_.write_indices && n > 0 && random_.chance(0.25f);
      read.push_back(random_.chance(0.25f) ? -1 - n : share ? read.back() : take());
    }
    for (std::int64_t n = 0; spec_.write_indices && n < sequences(); ++n)
      write.push_back(random_.chance(0.25f) ? -7 : take());
    args.state_indices = make_indices(read);
    // Somebody has to have the slots; what is written needs a place that the caller gives.
    if (args.output_final_state || spec_.write_indices || !spec_.initial_state)
      args.final_state = make_states();
    if (spec_.write_indices) args.state_write_indices = make_indices(write);
  }

  void choose_kept() {
    const std::int64_t N = sequences(), C = spec_.checkpoints;
    std::vector<std::int64_t> kept, accepted;
    for (std::int64_t n = 0; n < N; ++n) {
      accepted.push_back(0);
      for (std::int64_t i = 0; i < C; ++i) {
        kept.push_back(random_.chance(0.25f) ? -3 : take());
        if (kept.back() >= 0 && random_.chance(0.3f)) accepted.back() = i + 1;
      }
    }
    const TensorView flat = make_indices(kept);
    made_.args.checkpoint_indices = TensorView(flat.data(), flat.dtype(), {N, C});
    if (spec_.accepted_tokens) made_.args.num_accepted_tokens = make_indices(accepted);
  }

  CaseSpec<Args> spec_;
  Random random_;
  RandomCase<Args> made_;
  std::vector<std::int64_t> free_;  ///< slots
};

}  // namespace

std::string_view name_of(DataKind data) { return kNames[static_cast<std::size_t>(data)]; }

std::optional<DataKind> data_kind_from_name(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DataKind>(found - kNames.begin());
}

template <RecurrenceArgs Args>
RandomCase<Args> make_case(const CaseSpec<Args>& spec) {
  return Builder<Args>(spec).make();
}

#define FLA_OP(NAME, ARGS) template RandomCase<ARGS> make_case(const CaseSpec<ARGS>&);
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

}  // namespace fla::cases
