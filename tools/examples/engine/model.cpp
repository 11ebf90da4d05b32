#include "model.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace {

using Rows = std::vector<float>;

std::int64_t rows_of(std::span<const Piece> pieces) {
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) rows += static_cast<std::int64_t>(piece.tokens.size());
  return rows;
}

std::vector<float> random_numbers(std::int64_t count, float size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-size, size);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = uniform(random);
  return numbers;
}

fla::Tensor random_tensor(const std::vector<std::int64_t>& shape, float size, std::uint64_t seed) {
  const fla::Tensor tensor = fla::Tensor::empty(shape, fla::DType::f32);
  std::ranges::copy(random_numbers(tensor.numel(), size, seed), tensor.as<float>());
  return tensor;
}

// Every row with a mean square of 1.
Rows normalized(Rows rows) {
  for (std::size_t first = 0; first < rows.size(); first += kWidth) {
    float sum = 0;
    for (std::size_t i = first; i < first + kWidth; ++i) sum += rows[i] * rows[i];
    const float factor = 1 / std::sqrt(sum / kWidth + 1e-6f);
    for (std::size_t i = first; i < first + kWidth; ++i) rows[i] *= factor;
  }
  return rows;
}

void add(Rows& x, const Rows& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

fla::TensorView view(const Rows& rows, const std::vector<std::int64_t>& shape) {
  return {const_cast<float*>(rows.data()), fla::DType::f32, shape};
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, std::uint64_t seed)
    : in_(in), out_(out), weight_(random_numbers(in * out, 1.7f / std::sqrt(static_cast<float>(in)), seed)) {}

Rows Linear::operator()(const Rows& rows) const {
  const auto count = static_cast<std::int64_t>(rows.size()) / in_;
  Rows result(static_cast<std::size_t>(count * out_));
  for (std::int64_t row = 0; row < count; ++row) {
    const float* const x = rows.data() + row * in_;
    for (std::int64_t i = 0; i < out_; ++i) {
      const float* const weights = weight_.data() + i * in_;
      float sums[4] = {};
      for (std::int64_t j = 0; j < in_; j += 4) {
        for (int k = 0; k < 4; ++k) sums[k] += x[j + k] * weights[j + k];
      }
      result[static_cast<std::size_t>(row * out_ + i)] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
  return result;
}

Pools::Pools(std::int64_t slots) {
  for (int layer = 0; layer < kKdaLayers; ++layer) {
    states[layer] = fla::Tensor::zeros({slots, kHeads, kChannels, kChannels}, fla::DType::f32);
    inputs[layer] = fla::Tensor::zeros({slots, 3 * kInner, kReach - 1}, fla::DType::f32);
  }
}

void Window::cut_to(std::int64_t tokens) {
  keys.resize(static_cast<std::size_t>(tokens * kInner));
  values.resize(keys.size());
}

void Window::forget_what_is_too_old() {
  const std::int64_t extra = tokens() - kWindow;
  if (extra <= 0) return;
  keys.erase(keys.begin(), keys.begin() + extra * kInner);
  values.erase(values.begin(), values.begin() + extra * kInner);
}

Model::Model(std::uint64_t seed)
    : embedding_(random_numbers(kVocabulary * kWidth, 6, seed)),
      attention_in_(kWidth, 3 * kInner, seed + 1),
      attention_out_(kInner, kWidth, seed + 2),
      head_(kWidth, kVocabulary, seed + 3) {
  for (int layer = 0; layer < kKdaLayers; ++layer) {
    seed += 100;
    kda_.push_back({.qkv = {kWidth, 3 * kInner, seed},
                    .gate = {kWidth, kInner, seed + 1},
                    .beta = {kWidth, kHeads, seed + 2},
                    .output_gate = {kWidth, kInner, seed + 3},
                    .out = {kInner, kWidth, seed + 4},
                    .convolution = random_tensor({3 * kInner, kReach}, 0.8f, seed + 5),
                    .A_log = random_tensor({kHeads}, 0.5f, seed + 6),
                    .dt_bias = random_tensor({kInner}, 0.5f, seed + 7)});
  }
  for (int layer = 0; layer <= kKdaLayers; ++layer)
    networks_.push_back({{kWidth, kHidden, ++seed}, {kHidden, kWidth, ++seed}});
}

// Convolution, recurrence and gated norm are fla's; the projections around them are the model's.
Rows Model::kda(int index, const Rows& x, std::span<Piece> pieces, Pools& pools, Function function) const {
  const KdaLayer& layer = kda_[static_cast<std::size_t>(index)];
  const auto count = static_cast<std::int64_t>(pieces.size());
  const std::int64_t rows = rows_of(pieces);
  const Rows qkv = layer.qkv(x), gate = layer.gate(x), beta = layer.beta(x),
             output_gate = layer.output_gate(x);

  // Prompts lie one after the other, of any lengths; steps are a batch.
  std::vector<std::int64_t> starts{0}, from, to;
  std::vector<std::int32_t> kept, accepted;
  std::size_t most_kept = 0;
  for (const Piece& piece : pieces) most_kept = std::max(most_kept, piece.kept.size());
  const bool drafts = function == Function::tokens && most_kept > 0;
  for (Piece& piece : pieces) {
    const std::int64_t begin = starts.back();
    starts.push_back(begin + static_cast<std::int64_t>(piece.tokens.size()));
    piece.inputs[index].assign(qkv.begin() + begin * 3 * kInner, qkv.begin() + starts.back() * 3 * kInner);
    from.push_back(piece.from);
    to.push_back(drafts ? -1 : piece.slot);
    kept.insert(kept.end(), piece.kept.begin(), piece.kept.end());
    kept.resize(from.size() * most_kept, -1);
    accepted.push_back(piece.accepted);
  }
  const bool packed = function == Function::chunks;
  const std::int64_t B = packed ? 1 : count, T = packed ? rows : rows / count;
  const auto slots = [count](std::vector<std::int64_t>& indices) {
    return fla::TensorView(indices.data(), fla::DType::i64, {count});
  };
  const fla::TensorView cu_seqlens =
      packed ? fla::TensorView(starts.data(), fla::DType::i64, {count + 1}) : fla::TensorView();

  const fla::Tensor mixed = fla::short_conv({.x = view(qkv, {B, T, 3 * kInner}),
                                             .weight = layer.convolution,
                                             .initial_state = pools.inputs[index],
                                             .use_silu = true,
                                             .cu_seqlens = cu_seqlens,
                                             .state_indices = slots(from),
                                             .state_write_indices = slots(to),
                                             .final_state = pools.inputs[index]})
                                .o;
  const auto part = [&](std::int64_t i) {  // q, k or v of each token's row
    return fla::TensorView(mixed.as<float>() + i * kInner, fla::DType::f32, {B, T, kHeads, kChannels},
                           {T * 3 * kInner, 3 * kInner, kChannels, 1});
  };
  fla::KdaArgs args{.q = part(0),
                    .k = part(1),
                    .v = part(2),
                    .g = view(gate, {B, T, kHeads, kChannels}),
                    .beta = view(beta, {B, T, kHeads}),
                    .initial_state = pools.states[index],
                    .use_qk_l2norm_in_kernel = true,
                    .use_gate_in_kernel = true,
                    .use_beta_sigmoid_in_kernel = true,
                    .lower_bound = -5.0f,
                    .cu_seqlens = cu_seqlens,
                    .state_indices = slots(from),
                    .A_log = layer.A_log,
                    .dt_bias = layer.dt_bias,
                    .final_state = pools.states[index]};
  if (most_kept > 0) {
    args.checkpoint_every = packed ? fla::kInvariantTokens : 1;
    args.checkpoint_indices = {kept.data(), fla::DType::i32, {count, static_cast<std::int64_t>(most_kept)}};
  }
  if (drafts) {
    args.num_accepted_tokens = {accepted.data(), fla::DType::i32, {count}};
  } else {
    args.state_write_indices = slots(to);
  }
  const fla::Tensor o = packed ? fla::chunk_kda(args).o : fla::fused_recurrent_kda(args).o;
  (void)fla::gated_rms_norm({.x = o, .g = view(output_gate, {B, T, kHeads, kChannels}), .out = o});
  return layer.out(Rows(o.as<float>(), o.as<float>() + o.numel()));
}

Rows Model::attention(const Rows& x, std::span<Piece> pieces) const {
  const Rows qkv = attention_in_(x);
  Rows o(x.size() / kWidth * kInner);
  std::size_t row = 0;
  for (Piece& piece : pieces) {
    Window& window = *piece.window;
    for (std::size_t t = 0; t < piece.tokens.size(); ++t, ++row) {
      const float* const q = qkv.data() + row * 3 * kInner;
      window.keys.insert(window.keys.end(), q + kInner, q + 2 * kInner);
      window.values.insert(window.values.end(), q + 2 * kInner, q + 3 * kInner);
      const std::int64_t end = window.tokens(), begin = std::max<std::int64_t>(0, end - kWindow);
      for (std::int64_t head = 0; head < kHeads; ++head) {
        float sum = 0, *const out = o.data() + row * kInner + head * kChannels;
        for (std::int64_t s = begin; s < end; ++s) {
          float score = 0;
          for (std::int64_t i = 0; i < kChannels; ++i)
            score += q[head * kChannels + i] *
                     window.keys[static_cast<std::size_t>(s * kInner + head * kChannels + i)];
          const float weight = std::exp(std::min(score / std::sqrt(float(kChannels)), 30.0f));
          sum += weight;
          for (std::int64_t i = 0; i < kChannels; ++i)
            out[i] += weight * window.values[static_cast<std::size_t>(s * kInner + head * kChannels + i)];
        }
        for (std::int64_t i = 0; i < kChannels; ++i) out[i] /= sum;
      }
    }
  }
  return attention_out_(o);
}

std::vector<Token> Model::run(std::span<Piece> pieces, Pools& pools, Function function,
                              bool last_alone) const {
  Rows x;
  for (const Piece& piece : pieces) {
    for (const Token token : piece.tokens)
      x.insert(x.end(), embedding_.begin() + token * kWidth, embedding_.begin() + (token + 1) * kWidth);
  }
  const auto think = [&](std::size_t i) {
    Rows hidden = networks_[i].in(normalized(x));
    for (float& h : hidden) h = h / (1 + std::exp(-h));
    add(x, networks_[i].out(hidden));
  };
  add(x, kda(0, normalized(x), pieces, pools, function));
  think(0);
  add(x, attention(normalized(x), pieces));
  think(1);
  add(x, kda(1, normalized(x), pieces, pools, function));
  think(2);

  Rows rows;  // those that a token is chosen for
  std::int64_t row = 0;
  for (const Piece& piece : pieces) {
    const auto tokens = static_cast<std::int64_t>(piece.tokens.size());
    const std::int64_t first = last_alone ? row + tokens - 1 : row;
    row += tokens;
    rows.insert(rows.end(), x.begin() + first * kWidth, x.begin() + row * kWidth);
  }
  const Rows scores = head_(normalized(std::move(rows)));
  std::vector<Token> chosen;
  for (auto at = scores.begin(); at != scores.end(); at += kVocabulary)
    chosen.push_back(static_cast<Token>(std::max_element(at, at + kVocabulary) - at));
  return chosen;
}

std::vector<Token> Model::read_prompts(std::span<Piece> pieces, Pools& pools) const {
  return run(pieces, pools, Function::chunks, true);
}

std::vector<Token> Model::step(std::span<Piece> pieces, Pools& pools) const {
  return run(pieces, pools, Function::tokens, false);
}
