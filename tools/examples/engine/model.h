// A small hybrid language model with random weights: two layers of Kimi Delta Attention, a layer of attention
// over the last tokens between them. Each is followed by a two-layer network, and adds to what came in.
#pragma once

#include <fla/fla.h>

#include <cstdint>
#include <span>
#include <vector>

using Token = std::int32_t;

constexpr std::int64_t kVocabulary = 64, kWidth = 16, kHeads = 2, kChannels = 8, kHidden = 32;
constexpr std::int64_t kInner = kHeads * kChannels;  // channels of q, of k and of v
constexpr std::int64_t kReach = 4;                   // tokens of the convolution before a kda layer
constexpr std::int64_t kWindow = 16;                 // tokens that attention sees
constexpr int kKdaLayers = 2;

// Rows times a matrix, [rows, in] to [rows, out], each row in the same order whatever stands beside it.
class Linear {
 public:
  Linear(std::int64_t in, std::int64_t out, std::uint64_t seed);
  std::vector<float> operator()(const std::vector<float>& rows) const;

 private:
  std::int64_t in_, out_;
  std::vector<float> weight_;  // [out, in]
};

// What the model remembers of sequences. A slot has a sequence's state in every kda layer: the recurrence's,
// [HV, K, V], and the last inputs of the convolution, [3 * kInner, kReach - 1]. Slot 0 stays empty: a new
// sequence starts from it.
struct Pools {
  explicit Pools(std::int64_t slots);

  fla::Tensor states[kKdaLayers], inputs[kKdaLayers];
  static constexpr std::int64_t kEmpty = 0;
  static constexpr std::int64_t kStateBytes = kHeads * kChannels * kChannels * 4;  // of a slot in one layer
};

// Keys and values of the last tokens, of one sequence: [tokens, kInner].
struct Window {
  std::vector<float> keys, values;

  std::int64_t tokens() const { return static_cast<std::int64_t>(keys.size()) / kInner; }
  void cut_to(std::int64_t tokens);  // the newest ones go
  void forget_what_is_too_old();
};

// Some tokens of one sequence.
struct Piece {
  std::span<const Token> tokens{};
  Window* window = nullptr;
  std::int64_t slot = 0, from = 0;             // where its state goes, and where it comes from
  std::vector<std::int32_t> kept{};            // slots of the states on the way; negative: not kept
  std::int32_t accepted = 0;                   // of the step before, which kept a state a token
  std::vector<float> inputs[kKdaLayers] = {};  // out: what went into the convolutions, [tokens, 3 * kInner]
};

class Model {
 public:
  explicit Model(std::uint64_t seed);

  // The tokens that follow the last one of every piece. States after every 64 tokens of a piece go to `kept`.
  std::vector<Token> read_prompts(std::span<Piece> pieces, Pools& pools) const;
  // The tokens that follow each token of every piece, which all have as many. With `kept` it has a slot a
  // token, and neither the state nor the convolution's inputs go to `slot`.
  std::vector<Token> step(std::span<Piece> pieces, Pools& pools) const;

 private:
  struct KdaLayer {
    Linear qkv, gate, beta, output_gate, out;
    fla::Tensor convolution, A_log, dt_bias;
  };
  struct Network {
    Linear in, out;
  };

  enum class Function { chunks, tokens };
  std::vector<Token> run(std::span<Piece> pieces, Pools& pools, Function function, bool last_alone) const;
  std::vector<float> kda(int layer, const std::vector<float>& x, std::span<Piece> pieces, Pools& pools,
                         Function function) const;
  std::vector<float> attention(const std::vector<float>& x, std::span<Piece> pieces) const;

  std::vector<float> embedding_;  // [kVocabulary, kWidth]
  std::vector<KdaLayer> kda_;
  Linear attention_in_, attention_out_;
  std::vector<Network> networks_;
  Linear head_;
};
