#pragma once

#include "backends/cuda_backward/outputs.cuh"
#include "backends/cuda_backward/token_rows.cuh"

/// The gradients of one chunk whose gates have a number a token (workspace.cuh), of one value head or, one
/// after another, of all that share a key head. Decays are factors of tokens and of pairs, so q and k need
/// nothing but their norms to be operands, and what a block holds at a time is little enough for two of them
/// in an SM: while one waits the other one works.
///
///     state      dS'                 S
///     rows       k, E, X, dY         k, E, dY, then q, dM, dN
///     makes      W, dM dN            dk dq
///
/// W = dS'^T X is, but for numbers of tokens, the part of dk that comes through the state that the chunk
/// leaves: a warp has 16 channels of all tokens. The next head's dS' and E come while this one's last
/// products are made.
///
/// The terms of dg (gradients.cuh) are sums over channels. A token's key reads the state and is written to
/// it; with r the part of dk from where it reads, they are q dq + k r - k (dk - r).
namespace fla::cuda_backward {

/// A branch that is never taken. ptxas moves instructions within basic blocks, across barriers too; this ends
/// a block, so that the next step's registers are not needed while this step's are in use. Without it 136
/// bytes a thread were spilled.
__device__ inline void end_step() {
  if (gridDim.x == 0) __trap();
}

struct alignas(1024) TokenGradientMemory {
  StateTile state;
  SplitRows k;
  union {
    SplitRows E;
    KeyTile dq;  ///< as it is stored
  };
  union {
    KeyTile X;
    struct {
      PairTile dM, dN;
    };
    KeyTile dk;  ///< as it is stored
  };
  union {
    KeyTile dY;
    SplitRows q;
  };
  TokenNumbers tokens;
  alignas(16) KeyNorms norms;
  // For later: registers have other uses meanwhile.
  ChunkOfBlock<kTokens> chunk;
  float2 up;           ///< Scales::up()
  float gradients_up;  ///< Scales::gradients.up
  Largest largest;
  union {
    /// Over a warp's channels: of q dq, of k dk, of the part of it where k reads.
    float by_warp[3][kHead / 16][kTokens];
    float dbeta[kTokens];
    alignas(8) float of_own[2][kTokens];  ///< what q and k are multiplied by and taken from dq and dk
  };
  float by_token[3][kTokens];  ///< over all channels
  float whole[kHead / 16];     ///< the part of dg that all tokens share, by warps
  bool last;                   ///< of the heads that share keys
  /// Rounds of a head: dS' and numbers; X, dY, and at first k too, then S, then q.
  Arrival ahead, arrival;
};
static_assert(2 * (sizeof(TokenGradientMemory) + 1024) <= 228 * 1024, "two blocks in an SM");

/// A thread's 16-byte pieces of a state, of half of its channels: the same ones of every state.
struct StatePieces {
  static constexpr int kCount = kHead * StateTile::kRow / 8 / kBlockThreads;
  uint4 at[kCount];

  __device__ static int place(int i) { return (i * kBlockThreads + static_cast<int>(threadIdx.x)) * 8; }
  /// What lies behind `rows` is zeros.
  __device__ StatePieces(const StateTile::Half& from, int rows) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      at[i] = place(i) < rows * StateTile::kRow ? *reinterpret_cast<const uint4*>(from.at + place(i))
                                                : uint4{0, 0, 0, 0};
  }
  /// The thread's part of the sum of products with another one's.
  __device__ float products(const StateTile::Half& other) const {
    float sum = 0;
    const auto add = [&](std::uint32_t a, std::uint32_t b) {
      const float2 x = unpack_f16(a), y = unpack_f16(b);
      sum += x.x * y.x + x.y * y.y;
    };
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint4 words = *reinterpret_cast<const uint4*>(other.at + place(i));
      add(words.x, at[i].x), add(words.y, at[i].y), add(words.z, at[i].z), add(words.w, at[i].w);
    }
    return sum;
  }
};

/// The warp's part of x^T dx, for every token.
__device__ inline void put_products(const SplitRows& rows, int channel, const Slice<kTokenTiles>& dx,
                                    float* to) {
  float sums[2 * kTokenTiles] = {};
  with_columns(rows, channel, [&](int n, int r, std::uint32_t word) {
    const float2 x = unpack_f16(word);
    sums[2 * n] += x.x * dx[n][2 * r], sums[2 * n + 1] += x.y * dx[n][2 * r + 1];
  });
  put_token_sums(sums, to);
}

/// From E X^T, which one warpgroup has, dM, lower triangular, and from dY X^T, which the other has, dN,
/// strictly lower triangular, and dbeta.
__device__ inline void put_pair_gradients(TokenGradientMemory& memory, const Slice<kTokenTiles>& d) {
  const bool of_M = warpgroup() == 0;
  const int row = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32 % 4 * 16, 0);
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  const TokenNumbers& tokens = memory.tokens;
  const float factor[2] = {of_M ? 1 : -tokens.beta[row + g], of_M ? 1 : -tokens.beta[row + g + 8]},
              G[2] = {tokens.G[row + g], tokens.G[row + g + 8]};
  Packed<kTokenTiles> words;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const int j = 8 * n + 2 * p;
    words.at[n][0] = words.at[n][1] = 0;
    if (8 * n > row + 8) continue;  // all above the diagonal
    const float2 earlier = pair_of_tokens(tokens.G, n), beta = pair_of_tokens(tokens.beta, n);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + g + 8 * r, least = of_M ? i : i - 1;
      const float x = d[n][2 * r], y = d[n][2 * r + 1];
      if (!of_M && i / 2 == j / 2) memory.dbeta[i] = i == j ? x : y;
      words.at[n][r] = pack_f16(j > least ? 0 : factor[r] * beta.x * exp2_decay(G[r] - earlier.x) * x,
                                j + 1 > least ? 0 : factor[r] * beta.y * exp2_decay(G[r] - earlier.y) * y);
    }
  }
  put_matrices(words, of_M ? memory.dM : memory.dN, row);
}

/// Of y = r x, r the inverse norm: dx = r (dy - y (y^T dy)) = a dy - b y, in the format in which it is
/// stored.
__device__ inline void put_keys(const SplitRows& own, int channel, const Slice<kTokenTiles>& dy,
                                const float (&a)[kTokens], const float (&b)[kTokens], bool narrow,
                                KeyTile& tile) {
  float2 of_dy, of_y;  // of tile n
  with_columns(own, channel, [&](int n, int r, std::uint32_t word) {
    if (r == 0) of_dy = pair_of_tokens(a, n), of_y = pair_of_tokens(b, n);
    const float2 y = unpack_f16(word);
    const float x0 = of_dy.x * dy[n][2 * r] - of_y.x * y.x, x1 = of_dy.y * dy[n][2 * r + 1] - of_y.y * y.y;
    word_of(tile, channel, 0, n, r) = narrow ? pack_f16(x0, x1) : pack_bf16(x0, x1);
  });
}

/// What two tokens of a lane of the first warp have of gates: the constructor issues the loads.
struct TwoGates {
  float2 raw;
  float rate, bias;

  __device__ explicit TwoGates(const TokenGates& gates)
      : raw(*reinterpret_cast<const float2*>(gates.raw + threadIdx.x % 32 * 2)),
        rate(gates.rate),
        bias(gates.bias) {}
};

/// From terms to the gradients of log-decays, and of what these are made from. `parts`: [2][kHead], of this
/// chunk and head. One warp calls this and has two tokens a lane.
__device__ inline void token_gate_gradients(const BackwardCall& back, const TokenGradientMemory& memory,
                                            int head, const TwoGates& gates, float* parts) {
  const RecurrenceCall& call = back.call;
  const TokenRange range = memory.chunk.range();
  const float2 up = memory.up;
  const int lane = threadIdx.x % 32, t = 2 * lane;
  float terms[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    terms[i] = memory.by_token[0][t + i] - memory.by_token[1][t + i] + 2 * memory.by_token[2][t + i];
  float whole = 0;
#pragma unroll
  for (const float part : memory.whole) whole += part;
  float later = terms[0] + terms[1];  // of this lane and those behind it
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float others = __shfl_sync(~0u, later, lane + step);
    if (lane + step < 32) later += others;
  }
  later = __shfl_sync(~0u, later, lane + 1);
  float dg[2];
  dg[1] = terms[1] + (lane < 31 ? later : 0);
  dg[0] = terms[0] + dg[1];
  GateSums sums;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (t + i >= range.count) continue;
    const float x = go_through_gate(call, i ? gates.raw.y : gates.raw.x, (whole + dg[i]) * up.x * up.y,
                                    gates.rate, gates.bias, sums);
    const Rows& rows = back.dg;
    if (rows.data)
      store(rows.data, rows.dtype,
            range.batch * rows.batch + (range.first + t + i) * rows.token + head * rows.head, x);
  }
  sums.offset = reduce(sums.offset), sums.rate = reduce(sums.rate);
  if (lane == 0) parts[0] = sums.offset, parts[kHead] = sums.rate;
}

/// A block's chunk and heads: one, or all that share a key head.
template <Inputs inputs>
struct TokenBlock {
  const BackwardCall& back;
  const BackwardMemory& workspace;
  TokenGradientMemory& memory;
  int heads;

  __device__ const ChunkOfBlock<kTokens>& chunk() const { return memory.chunk; }
  __device__ int head(int i) const { return chunk().head * heads + i; }
  __device__ std::int64_t number(int i) const { return chunk().place * back.call.HV + head(i); }
  __device__ ChunkMemory& own(int i) const { return workspace.chunks[number(i)]; }
  __device__ int key_head() const { return head(0) / back.call.group; }
  __device__ const KeyMemory& keys() const {
    return workspace.keys[chunk().place * (back.call.HV / back.call.group) + key_head()];
  }

  /// What head i begins with. All threads call this.
  __device__ void fetch(int i) const {
    const RecurrenceCall& call = back.call;
    if (threadIdx.x == 0) {
      Arrival& arrival = memory.ahead;
      arrival.expect(state_bytes(call.V) + sizeof(TokenNumbers) + sizeof(Largest));
      copy_bulk(workspace.largest[chunk().n * call.HV + head(i)], memory.largest, arrival);
      copy_bulk(workspace.tokens[number(i)].numbers, memory.tokens, arrival);
      copy_bulk(own(i).dS, memory.state, call.V, arrival);
    }
    std::uint32_t thread = threadIdx.x;
    forget(thread);  // so that what follows from it is made again
    copy_input<kBlockThreads>(back.do_, head(i), 0, call.V, chunk().range(), memory.E,
                              static_cast<int>(thread));
    __pipeline_commit();
  }
  /// And what it needs with it, once nobody reads q and dN any more: one thread calls this.
  __device__ void fetch_late(int i) const {
    const TokenMemory& from = workspace.tokens[number(i)];
    memory.arrival.expect(2 * sizeof(KeyTile) + (i == 0 ? sizeof(SplitRows) + sizeof(KeyNorms) : 0));
    copy_bulk(from.X, memory.X, memory.arrival);
    copy_bulk(from.dY, memory.dY, memory.arrival);
    if (i > 0) return;
    copy_bulk(keys().k, memory.k, memory.arrival);
    copy_bulk(keys().norms, memory.norms, memory.arrival);
  }
  /// Makes the gradients of head i, and after the last one those of keys; whether there is another one.
  __device__ bool run(int i) const;
};

template <Inputs inputs>
__device__ bool TokenBlock<inputs>::run(int i) const {
  const RecurrenceCall& call = back.call;
  const int warp = threadIdx.x / 32;
  const bool done = i + 1 == heads, alone = heads == 1, shared_keys = call.group > 1;
  std::uint32_t row = 16 * warp;
  const StatePieces S[2] = {{own(i).S.halves[0], call.V}, {own(i).S.halves[1], call.V}};  // on their way
  memory.ahead.wait(i);
  __pipeline_wait_prior(0);
  {
    const Scales scales(memory.largest);
    if (threadIdx.x == 0) memory.up = scales.up(), memory.gradients_up = scales.gradients.up;
    const float factor = scales.gradients.down * call.scale;
    with_own_pieces<kBlockThreads>(memory.E, [&](int, uint4& words) {
      change_words(words, [&](std::uint32_t word) {
        const float2 x = unpack(word, dtype_of<inputs>(back.do_));
        return pack_f16(factor * x.x, factor * x.y);
      });
    });
  }
  end_step();

  // The warpgroup's half of a tile's columns. (Which it is is found again each time: registers.)
  const auto own_columns = [](const auto& tile) {
    return [&tile, half = warpgroup()](int row) { return operand<true>(tile.halves[half]).from(row); };
  };
  const auto earlier = [](const PairTile& pairs) {  // of a token with those before it
    return [&](int t) { return operand<false>(pairs).from(t); };
  };
  const auto later = [](const PairTile& pairs) {
    return [&](int t) { return operand<true>(pairs).from(t); };
  };
  const auto rows_of = [](const KeyTile& tile) { return [&](int v) { return operand<true>(tile).from(v); }; };
  const auto of_E = [&](int v) { return operand<false>(memory.E.halves[v / 64]).from(v % 64); };
  memory.arrival.wait(3 * i);
  show_to_products();
  __syncthreads();  // E is there
  Slice<kTokenTiles> W;
  float whole = 0;
  {
    Slice<kTokenTiles> pairs;
    begin_all<false>(W, kHead, own_columns(memory.state), rows_of(memory.X));
    if (warpgroup() == 0)
      begin_all<false>(pairs, kHead, of_E, rows_of(memory.X));
    else
      begin_all<false>(pairs, kHead, rows_of(memory.dY), rows_of(memory.X));
#pragma unroll
    for (int half = 0; half < 2; ++half) whole += S[half].products(memory.state.halves[half]);
    whole *= memory.tokens.front[kTokens - 1];
    end_all(W), end_all(pairs);
    __syncthreads();  // dS' and X have been read
    if (threadIdx.x == 0) {
      memory.arrival.expect(state_bytes(call.V));
      copy_bulk(own(i).S, memory.state, call.V, memory.arrival);
    }
    put_pair_gradients(memory, pairs);
  }
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const float2 written = pair_of_tokens(memory.tokens.written, n);
#pragma unroll
    for (int e = 0; e < 4; ++e) W[n][e] *= e % 2 ? written.y : written.x;
  }
  if (warpgroup() == 0)
    store_values<kBlockThreads / 2>(back.dv, head(i), call.V, chunk().range(), memory.dY, memory.tokens.beta,
                                    memory.gradients_up);
  memory.arrival.wait(3 * i + 1);
  show_to_products();
  __syncthreads();  // dM, dN and S are there
  Slice<kTokenTiles> dk, dq;
  begin_all<false>(dk, kHead, own_columns(memory.state), rows_of(memory.dY));
  begin_all<false>(dq, kHead, own_columns(memory.state), of_E);
  if (const int t = threadIdx.x; t < chunk().count && back.dbeta.data) {
    const Rows& rows = back.dbeta;
    const float2 up = memory.up;
    store(rows.data, rows.dtype,
          chunk().batch * rows.batch + (chunk().first + t) * rows.token + head(i) * rows.head,
          memory.dbeta[t] * up.x * up.y * memory.tokens.beta_slopes[t]);
  }
  end_all(dk), end_all(dq);
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const float2 front = pair_of_tokens(memory.tokens.front, n), beta = pair_of_tokens(memory.tokens.beta, n);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      dk[n][e] *= e % 2 ? -front.y * beta.y : -front.x * beta.x;
      dq[n][e] *= e % 2 ? front.y : front.x;
    }
  }
  __syncthreads();  // S, E, dY and numbers of tokens have been read
  if (threadIdx.x == 0) {
    memory.arrival.expect(sizeof(SplitRows));
    copy_bulk(keys().q, memory.q, memory.arrival);
  }
  if (!done) fetch(i + 1);
  forget(row);  // so that addresses are made again
  begin_all<true>(dk, kTokens, own_columns(memory.k), earlier(memory.dN));
  begin_all<true>(dq, kTokens, own_columns(memory.k), earlier(memory.dM));
  with_columns(memory.k, row, [&](int n, int r, std::uint32_t word) {
    const float2 k = unpack_f16(word);
    whole += k.x * W[n][2 * r] + k.y * W[n][2 * r + 1];
  });
  whole = reduce(whole);
  if (threadIdx.x % 32 == 0) memory.whole[warp] = whole;
  end_all(dk), end_all(dq);
  put_products(memory.k, row, dk, memory.by_warp[2][warp]);
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) dk[n][e] += W[n][e];
  }
  begin_all<true>(dk, kTokens, own_columns(memory.k), later(memory.dN));
  memory.arrival.wait(3 * i + 2);
  begin_all<true>(dk, kTokens, own_columns(memory.q), later(memory.dM));
  put_products(memory.q, row, dq, memory.by_warp[0][warp]);
  end_all(dk);
  put_products(memory.k, row, dk, memory.by_warp[1][warp]);
  const TwoGates gates(workspace.tokens[number(i)].gates);  // on their way
  __syncthreads();                                          // q, dM and dN have been read
  if (!done && threadIdx.x == 0) fetch_late(i + 1);
  float products = 0;
  if (const int n = threadIdx.x; n < 3 * kTokens) {
    products = token_sum(memory.by_warp[n / kTokens], n % kTokens);
    memory.by_token[n / kTokens][n % kTokens] = products;
  }
  using Part = PartWords<kBlockThreads, kTokenTiles>;
  if (shared_keys && (alone || !done)) {
    Part(dq, dk).store(own(i).parts);
    if (threadIdx.x < 2 * kTokens) own(i).products[threadIdx.x] = products;
  }
  __syncthreads();
  if (warp == 0) token_gate_gradients(back, memory, head(i), gates, own(i).factors[0]);
  if (!done) return true;

  const float2 up = memory.up;
  const int first_head = key_head() * call.group;
  KeySums<kBlockThreads, kTokenTiles> sums;
  if (!shared_keys) {
    sums.add(dq, dk, products, up);
  } else if (alone) {
    if (!last_of_group(call, workspace, chunk().place, key_head(), memory.last)) return false;
    sums.add_heads(call, workspace, chunk(), first_head, first_head + call.group - 1);
  } else {
    sums.add(Part(dq, dk), products, up);
    sums.add_heads(call, workspace, chunk(), first_head, head(i) - 1);
  }
  if (const int n = threadIdx.x; n < 2 * kTokens)
    memory.of_own[n / kTokens][n % kTokens] = memory.norms[n / kTokens][n % kTokens] * sums.products;
  __syncthreads();
  const auto put_own = [&](int which, const SplitRows& rows, const Slice<kTokenTiles>& dx, const Rows& to,
                           KeyTile& tile) {
    if (to.data)
      put_keys(rows, row, dx, memory.norms[which], memory.of_own[which], to.dtype == DType::f16, tile);
  };
  forget(row);
  put_own(0, memory.q, sums.dq, back.dq, memory.dq);
  put_own(1, memory.k, sums.dk, back.dk, memory.dk);
  __syncthreads();
  store_keys<kBlockThreads>(back.dq, key_head(), call.K, chunk().range(), memory.dq);
  store_keys<kBlockThreads>(back.dk, key_head(), call.K, chunk().range(), memory.dk);
  return false;
}

/// A block has `heads` value heads of a chunk.
template <Inputs inputs>
__global__ void __launch_bounds__(kBlockThreads, 2)
    token_gradients(const __grid_constant__ BackwardCall back,
                    const __grid_constant__ BackwardMemory workspace, int heads) {
  extern __shared__ __align__(1024) char shared[];
  const TokenBlock<inputs> block{back, workspace, *reinterpret_cast<TokenGradientMemory*>(shared), heads};
  TokenGradientMemory& memory = block.memory;
  {
    const ChunkOfBlock<kTokens> chunk(back.call, back.call.HV / heads);
    if (threadIdx.x == 0) {
      memory.chunk = chunk;
      memory.ahead.begin(), memory.arrival.begin();
    }
    __syncthreads();
  }
  if (memory.chunk.count == 0) {
    for (int i = 0; i < heads; ++i) block.own(i).factors[threadIdx.x / kHead][threadIdx.x % kHead] = 0;
    return;
  }
  block.fetch(0);
  if (threadIdx.x == 0) block.fetch_late(0);
  clear_rows<kBlockThreads>(memory.state, back.call.V);
  int i = 0;
  // A second way into the loop, which nobody takes: what is the same for all heads would else be made before
  // it, and kept in memory as there are no registers for it.
  if (gridDim.x == 0) goto next_head;
this_head:
  if (!block.run(i)) return;
next_head:
  ++i;
  goto this_head;
}

}  // namespace fla::cuda_backward
