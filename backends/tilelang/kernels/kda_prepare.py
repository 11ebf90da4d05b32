"""What a chunk of 64 tokens of one value head does to any state: one block a chunk and head, two threads a channel.

    Kt = k e^G    Qt = q e^G    Kr = X^T (k e^(G_end - G))    B = M X    gamma = e^G_end
    X = (I + p strict_lower(N))^-1    M_ij, N_ij = q_i, k_i . e^(G_i - G_j) k_j

q and k of any norm become f16 factors of about 1: with k = m k' and q = f q' the rule k beta (v - k^T S) is
k' (w v - p k'^T S) for w = m beta and p = m^2 beta, and o has the factor f. What is written here are q' and k'; w, p and f
go to kda_state as they are, in f32. In most chunks every m and f is 1; otherwise one is looked for row by row, out of
the way of the others.

G is the running sum of the log-decays, in powers of two, for each half of the chunk by itself. Gates may be as strong
as they like: a pair i > j is the product of two factors of at most 1, decays from and to the token before the boundary
between them. Which boundary that is depends on the highest bit in which i and j differ, so there is a product of
matrices for each of the 6 bits, of which the pairs of that bit are kept:

    bit 5          bit 4          bit 3 …     rows: the second of two halves, q and k times e^(G_i - G_r)
    . . . .        . . . .                    columns: the first, k times e^(G_r - G_j)
    . . . .        x . . .                    r: the last token of the first half
    x x . .        . . . .
    x x . .        . . x .

X comes from the four 16 x 16 blocks on the diagonal, solved in f32 by a thread a column, and two merges
X_10 = -X_11 (L_10 X_00). Factors of products are f16: all of them are contractions where beta |k|^2 is at most 2.

From the first token whose k, beta or log-decay is not finite on, everything is NaN, and nothing before it may be: those
tokens count as not there, and f and gamma are NaN. A q that is not finite has an f of its own that is NaN.
"""

import tilelang.language as T
from tvm.tirx.op import thread_return

from magnitudes import LARGEST, bits, finite, larger_of, not_a_number, power_of_two
from packets import OF_KEYS, OF_OUTPUT, OF_VALUES, vector_width
from sequences import CHUNK, bound, first_place

HALF = CHUNK // 2
BLOCK = 16
LOG2E = 1.4426950408889634
FORGOTTEN = -160.0  # 2^-160 is 0; running sums of it keep their precision
GROWN = 15.0  # 2^15 is about where f16 ends
GIVEN, SOFTPLUS, BOUNDED = 0, 1, 2  # fla::cuda::Gate


def sigmoid(x):
    e = T.exp(-T.abs(x))
    return T.if_then_else(x >= 0, 1.0, e) / (1.0 + e)


def softplus(x):
    return T.max(x, 0.0) + T.log1p(T.exp(-T.abs(x)))


def sum_at(G, i, j):
    """G of token i and channel j. A thread reads eight neighbouring channels as two times four: the first four of all
    threads lie side by side, and so do the second, or their banks would collide."""
    return G[i, j % 8 // 4, j // 8, j % 4]


def grown(log2):
    """Or not a number: comparisons may be turned around, so they do not tell."""
    return T.Or(T.Not(finite(log2)), log2 > GROWN)


def plain(square, l2norm):
    """Whether f16 factors of a row have all their digits, by its sum of squares; with l2norm they are divided by their
    norm. No comparison of floats, for NaN is not plain."""
    low = T.if_then_else(l2norm != 0, float_bits(-28), float_bits(-12))
    high = T.if_then_else(l2norm != 0, float_bits(126), float_bits(10))
    return T.And(bits(square) >= low, bits(square) < high)


def float_bits(exponent):
    """Those of a power of two."""
    return (exponent + 127) << 23


def exponent_of(total, K):
    """Of the power of two that a row is divided by, whose absolute values have this sum: about its norm, and no more than
    the larger one of 1 and its largest channel's magnitude, times the root of K."""
    exponent = T.shift_right(bits(total), 23) - 127 - {64: 3, 128: 3, 256: 4}[K]
    return T.if_then_else(bits(total) == 0, 0, T.max(T.min(exponent, 126), -126))


def factor_of(exponent, square, l2norm):
    """What is left to multiply with where a row was divided by 2^exponent, then had this sum of squares, and was divided
    by its norm. 4^exponent is not always a float."""
    norm = square * T.rsqrt(T.max(square, 1e-30))
    small = power_of_two(T.min(exponent, 0))
    large = power_of_two(T.max(T.min(-exponent, 0), -60))
    kept = small * norm * T.rsqrt(square * small * small + 1e-6 * large * large)
    return T.if_then_else(l2norm != 0, kept, power_of_two(exponent))


@T.macro
def sum_rows(x, y, sums, total):
    for i, j in T.Parallel(*x.shape):
        sums[i, j] = T.cast(x[i, j], "float32") * T.cast(y[i, j], "float32")
    T.reduce_sum(sums, total, dim=1)


@T.macro
def measure_rows(x, sums, square, factor, exponent, l2norm, K):
    """Looks for the power of two and the factor that make f16 factors of about 1 of rows of any magnitude."""
    for i, j in T.Parallel(*x.shape):
        sums[i, j] = T.abs(T.cast(x[i, j], "float32"))
    T.reduce_sum(sums, factor, dim=1)
    for i in T.Parallel(CHUNK):
        exponent[i] = exponent_of(factor[i], K)
    for i, j in T.Parallel(*x.shape):
        divided = T.cast(x[i, j], "float32") * power_of_two(-exponent[i])
        sums[i, j] = divided * divided
    T.reduce_sum(sums, square, dim=1)
    for i in T.Parallel(CHUNK):
        factor[i] = power_of_two(-exponent[i]) * T.if_then_else(l2norm != 0, T.rsqrt(square[i] + 1e-6), 1.0)


@T.macro
def keep(bit, kept, G):
    """What is left of a token's channels on the way from or to the token before the boundary between two halves."""
    step = 1 << bit
    for i, j in T.Parallel(*kept.shape):
        own = sum_at(G, i, j)
        if bit == 5:  # the halves of the chunk, each of which has its own sums
            log2 = T.if_then_else(i < HALF, sum_at(G, HALF - 1, j) - own, own)
        else:
            since = own - sum_at(G, i // (2 * step) * (2 * step) + step - 1, j)
            log2 = T.if_then_else(i // step % 2 == 1, 1.0, -1.0) * since
        kept[i, j] = T.cast(T.exp2(log2), "float16")


@T.macro
def products(bit, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k):
    """Of all pairs of tokens, of which those are kept whose highest bit that differs is this one; what stands above the
    diagonal means nothing."""
    keep(bit, kept, G)
    for i, j in T.Parallel(*kept.shape):
        rows_q[i, j] = q_unit[i, j] * kept[i, j]
    for i, j in T.Parallel(*kept.shape):
        rows_k[i, j] = k_unit[i, j] * kept[i, j]
    T.wgmma_gemm(rows_q, rows_k, of_q, transpose_B=True, clear_accum=True)
    T.wgmma_gemm(rows_k, rows_k, of_k, transpose_B=True, clear_accum=True)
    T.wait_wgmma(0)
    for i, j in T.Parallel(CHUNK, CHUNK):
        differ = T.shift_right(T.bitwise_xor(i, j), bit)
        pairs_q[i, j] = T.if_then_else(differ == 1, of_q[i, j], pairs_q[i, j])
        pairs_k[i, j] = T.if_then_else(differ == 1, of_k[i, j], pairs_k[i, j])


def kernel(K, dtype, varlen):
    threads = 2 * K
    numbers = vector_width(K)
    packets = T.dynamic("packets")

    @T.prim_func
    def kda_prepare(
        q: T.Tensor((T.dynamic("q_size", "int64"),), dtype),
        k: T.Tensor((T.dynamic("k_size", "int64"),), dtype),
        g: T.Tensor((T.dynamic("g_size", "int64"),), dtype),
        g_f32: T.Tensor((T.dynamic("g_f32_size", "int64"),), "float32"),
        beta: T.Tensor((T.dynamic("beta_size", "int64"),), dtype),
        beta_f32: T.Tensor((T.dynamic("beta_f32_size", "int64"),), "float32"),
        A_log: T.Tensor((T.dynamic("A_log_size", "int64"),), dtype),
        A_log_f32: T.Tensor((T.dynamic("A_log_f32_size", "int64"),), "float32"),
        dt_bias: T.Tensor((T.dynamic("dt_bias_size", "int64"),), dtype),
        dt_bias_f32: T.Tensor((T.dynamic("dt_bias_f32_size", "int64"),), "float32"),
        cu_seqlens: T.Tensor((T.dynamic("cu_seqlens_size"),), "int32"),
        operators: T.Tensor((packets, 3 * CHUNK, K), "float16"),
        triangles: T.Tensor((packets, CHUNK, CHUNK), "float16"),
        vectors: T.Tensor((packets, numbers), "float32"),  # see packets.py
        N: T.int32,
        tokens: T.int32,
        places: T.int32,
        HV: T.int32,
        group: T.int32,
        q_batch: T.int64,  # strides of q and k in eights of elements
        q_token: T.int64,
        q_head: T.int64,
        k_batch: T.int64,
        k_token: T.int64,
        k_head: T.int64,
        g_batch: T.int64,
        g_token: T.int32,  # times 64 it is below 2^31
        g_head: T.int64,
        g_channel: T.int64,
        beta_batch: T.int64,
        beta_token: T.int64,
        beta_head: T.int64,
        A_log_head: T.int64,
        dt_bias_head: T.int64,
        dt_bias_channel: T.int64,
        cu_seqlens_stride: T.int64,
        cu_seqlens_wide: T.int32,
        search_steps: T.int32,
        g_is_f32: T.int32,
        beta_is_f32: T.int32,
        has_A_log: T.int32,
        A_log_is_f32: T.int32,
        has_dt_bias: T.int32,
        dt_bias_is_f32: T.int32,
        gate: T.int32,
        lower_bound: T.float32,
        l2norm: T.int32,
        beta_sigmoid: T.int32,
        beta_factor: T.float32,
    ):
        with T.Kernel(places * HV, threads=threads) as packet:
            T.annotate_min_blocks_per_sm({64: 3, 128: 2, 256: 1}[K])
            G = T.alloc_shared((CHUNK, 2, K // 8, 4), "float32")  # see sum_at()
            rows_q = T.alloc_shared((CHUNK, K), "float16")
            rows_k = T.alloc_shared((CHUNK, K), "float16")
            remaining = T.alloc_shared((CHUNK, K), "float16")
            M = T.alloc_shared((CHUNK, CHUNK), "float16")
            L = T.alloc_shared((CHUNK, CHUNK), "float16")
            diagonal = T.alloc_shared((CHUNK, BLOCK + 1), "float32")  # of L
            X = T.alloc_shared((CHUNK, CHUNK), "float16")
            Xt = T.alloc_shared((CHUNK, CHUNK), "float16")
            Pt = T.alloc_shared((CHUNK, CHUNK), "float16")
            B = T.alloc_shared((CHUNK, CHUNK), "float16")
            betas = T.alloc_shared((CHUNK,), "float32")
            owns = T.alloc_shared((CHUNK,), "float32")
            # 1: from here on, 2: this q. Static, for where all shared memory is dynamic ptxas knows its addresses, keeps
            # wgmma's descriptors as constants in registers, not in uniform ones, and spills some 400 bytes more.
            spoilt = T.alloc_shared((CHUNK,), "int32", scope="shared")

            q_rows = T.alloc_fragment((CHUNK, K), dtype)
            k_rows = T.alloc_fragment((CHUNK, K), dtype)
            eights = T.Fragment((CHUNK, K), forward_fn=lambda i, j: (i % 16 * (K // 8) + j // 8, i // 16 * 8 + j % 8))
            T.annotate_layout({q_rows: eights, k_rows: eights})  # 16 bytes a load
            q_unit = T.alloc_fragment((CHUNK, K), "float16")
            k_unit = T.alloc_fragment((CHUNK, K), "float16")
            kept = T.alloc_fragment((CHUNK, K), "float16")
            sums = T.alloc_fragment((CHUNK, K), "float32")
            q_factor = T.alloc_fragment((CHUNK,), "float32")
            k_factor = T.alloc_fragment((CHUNK,), "float32")
            exponent = T.alloc_fragment((CHUNK,), "int32")
            square = T.alloc_fragment((CHUNK,), "float32")
            own = T.alloc_fragment((CHUNK,), "float32")
            of_q = T.alloc_fragment((CHUNK, CHUNK), "float32")
            of_k = T.alloc_fragment((CHUNK, CHUNK), "float32")
            pairs_q = T.alloc_fragment((CHUNK, CHUNK), "float32")
            pairs_k = T.alloc_fragment((CHUNK, CHUNK), "float32")
            Kr = T.alloc_fragment((CHUNK, K), "float32")

            thread = T.get_thread_binding()
            head = T.alloc_var("int32")
            place = T.alloc_var("int32")
            batch = T.alloc_var("int32")
            first = T.alloc_var("int32")  # token of the chunk
            count = T.alloc_var("int32")  # tokens that are there
            head = T.truncmod(packet, HV)
            place = T.truncdiv(packet, HV)
            if varlen:
                low = T.alloc_var("int32")
                high = T.alloc_var("int32")
                low = 0
                high = N - 1
                for _ in T.serial(search_steps):
                    middle = (low + high + 1) // 2
                    begin = bound(cu_seqlens, middle, cu_seqlens_stride, cu_seqlens_wide, tokens)
                    if first_place(begin, middle) <= place:
                        low = T.min(middle, N - 1)
                    else:
                        high = T.max(middle - 1, 0)
                batch = 0
                first = bound(cu_seqlens, low, cu_seqlens_stride, cu_seqlens_wide, tokens)
                count = bound(cu_seqlens, low + 1, cu_seqlens_stride, cu_seqlens_wide, tokens) - first
                high = (place - first_place(first, low)) * CHUNK
                first = first + high
                count = T.if_then_else(high >= 0, count - high, 0)
            else:
                batch = T.truncdiv(place, T.ceildiv(tokens, CHUNK))
                first = T.truncmod(place, T.ceildiv(tokens, CHUNK)) * CHUNK
                count = tokens - first

            # A place between two sequences may have no tokens.
            if varlen:
                if count <= 0:
                    T.evaluate(thread_return())

            # Rows of q and k; those that are not there are zero.
            for i, j in T.Parallel(CHUNK, K):
                q_rows[i, j] = T.if_then_else(
                    i < count,
                    q[
                        (batch * q_batch + (first + T.min(i, count - 1)) * q_token + T.truncdiv(head, group) * q_head)
                        * 8
                        + j
                    ],
                    T.cast(0.0, dtype),
                )
            for i, j in T.Parallel(CHUNK, K):
                k_rows[i, j] = T.if_then_else(
                    i < count,
                    k[
                        (batch * k_batch + (first + T.min(i, count - 1)) * k_token + T.truncdiv(head, group) * k_head)
                        * 8
                        + j
                    ],
                    T.cast(0.0, dtype),
                )

            # Log-decays: a thread has a channel of half the tokens.
            channel = thread % K
            half = thread // K
            raw = T.alloc_local((HALF,), "float32")
            g_first = T.alloc_var("int64")
            g_first = batch * g_batch + first * T.cast(g_token, "int64") + head * g_head + channel * g_channel
            rate = T.alloc_var("float32")
            bias = T.alloc_var("float32")
            decay = T.alloc_var("float32")
            rate = 0.0
            bias = 0.0
            decay = 0.0
            if has_A_log != 0:
                if A_log_is_f32 != 0:
                    rate = A_log_f32[head * A_log_head]
                else:
                    rate = T.cast(A_log[head * A_log_head], "float32")
            rate = T.exp(rate)
            if has_dt_bias != 0:
                if dt_bias_is_f32 != 0:
                    bias = dt_bias_f32[head * dt_bias_head + channel * dt_bias_channel]
                else:
                    bias = T.cast(dt_bias[head * dt_bias_head + channel * dt_bias_channel], "float32")
            if g_is_f32 != 0:
                for i in T.unroll(HALF):
                    raw[i] = g_f32[g_first + T.min(half * HALF + i, count - 1) * g_token]
            else:
                for i in T.unroll(HALF):
                    raw[i] = T.cast(g[g_first + T.min(half * HALF + i, count - 1) * g_token], "float32")
            if gate == SOFTPLUS:
                for i in T.unroll(HALF):
                    raw[i] = -rate * softplus(raw[i] + bias)
            if gate == BOUNDED:
                for i in T.unroll(HALF):
                    raw[i] = lower_bound * sigmoid(rate * (raw[i] + bias))
            for i in T.unroll(HALF):
                decay = decay + T.if_then_else(half * HALF + i < count, larger_of(LOG2E * raw[i], FORGOTTEN), 0.0)
                G[half * HALF + i, channel % 8 // 4, channel // 8, channel % 4] = decay

            bad = T.alloc_var("int32")
            until = T.alloc_var("int32")  # the first token that is not there for what comes before
            bad = T.if_then_else(grown(decay), 1, 0)
            until = CHUNK
            if thread < CHUNK:
                beta_at = batch * beta_batch + (first + T.min(thread, count - 1)) * beta_token + head * beta_head
                if beta_is_f32 != 0:
                    rate = beta_f32[beta_at]
                else:
                    rate = T.cast(beta[beta_at], "float32")
                if beta_sigmoid != 0:
                    rate = beta_factor * sigmoid(rate)
                rate = T.if_then_else(thread < count, rate, 0.0)
                betas[thread] = rate
                vectors[packet, K + OF_VALUES + thread] = rate
                vectors[packet, K + OF_KEYS + thread] = rate
                vectors[packet, K + OF_OUTPUT + thread] = 1.0
                if T.Not(finite(rate)):
                    bad = 1

            # Their norms, and the products of a token's own q and k.
            sum_rows(q_rows, q_rows, sums, q_factor)
            sum_rows(k_rows, k_rows, sums, k_factor)
            sum_rows(q_rows, k_rows, sums, own)

            # What is not finite, very large or very small.
            for i in T.Parallel(CHUNK):
                if T.And(i < count, T.Not(T.And(plain(q_factor[i], l2norm), plain(k_factor[i], l2norm)))):
                    bad = 1
                q_factor[i] = T.if_then_else(l2norm != 0, T.rsqrt(q_factor[i] + 1e-6), 1.0)
                k_factor[i] = T.if_then_else(l2norm != 0, T.rsqrt(k_factor[i] + 1e-6), 1.0)
                own[i] = own[i] * q_factor[i] * k_factor[i]
            bad = T.syncthreads_or(bad)
            if bad != 0:
                mark = T.alloc_var("int32")
                mark = 0
                if T.And(thread < CHUNK, thread < count):
                    if T.Not(finite(betas[thread])):
                        mark = 1
                    for j in T.serial(K):
                        k_at = batch * k_batch + (first + thread) * k_token + T.truncdiv(head, group) * k_head
                        q_at = batch * q_batch + (first + thread) * q_token + T.truncdiv(head, group) * q_head
                        if T.Or(grown(sum_at(G, thread, j)), T.Not(finite(T.cast(k[k_at * 8 + j], "float32")))):
                            mark = 1
                        if T.And(mark == 0, T.Not(finite(T.cast(q[q_at * 8 + j], "float32")))):
                            mark = 2
                if thread < CHUNK:
                    spoilt[thread] = mark
                T.sync_threads()
                for i in T.serial(CHUNK):
                    if T.And(spoilt[i] == 1, i < until):
                        until = i
                for i, j in T.Parallel(CHUNK, K):
                    q_rows[i, j] = T.if_then_else(T.Or(i >= until, spoilt[i] == 2), T.cast(0.0, dtype), q_rows[i, j])
                for i, j in T.Parallel(CHUNK, K):
                    k_rows[i, j] = T.if_then_else(i >= until, T.cast(0.0, dtype), k_rows[i, j])
                decay = 0.0
                for i in T.serial(HALF):
                    if half * HALF + i < until:
                        decay = G[half * HALF + i, channel % 8 // 4, channel // 8, channel % 4]
                    G[half * HALF + i, channel % 8 // 4, channel // 8, channel % 4] = decay
                measure_rows(k_rows, sums, square, k_factor, exponent, l2norm, K)
                for i in T.Parallel(CHUNK):
                    of_key = factor_of(exponent[i], square[i], l2norm)
                    weighted = T.if_then_else(i < until, betas[i], 0.0) * of_key
                    weighted_twice = T.max(T.min(weighted * of_key, LARGEST), -LARGEST)
                    vectors[packet, K + OF_VALUES + i] = weighted
                    vectors[packet, K + OF_KEYS + i] = weighted_twice
                    betas[i] = weighted_twice
                measure_rows(q_rows, sums, square, q_factor, exponent, l2norm, K)
                for i in T.Parallel(CHUNK):
                    vectors[packet, K + OF_OUTPUT + i] = T.if_then_else(
                        T.Or(i >= until, spoilt[i] == 2), not_a_number(), factor_of(exponent[i], square[i], l2norm)
                    )
                for i, j in T.Parallel(CHUNK, K):
                    of_q_row = T.cast(q_rows[i, j], "float32") * q_factor[i]
                    sums[i, j] = of_q_row * (T.cast(k_rows[i, j], "float32") * k_factor[i])
                T.reduce_sum(sums, own, dim=1)
                T.sync_threads()

            # Here and not at the end: `until` is not kept in a register over the products.
            for j in T.Parallel(K):
                vectors[packet, j] = T.if_then_else(
                    until < CHUNK, not_a_number(), T.exp2(sum_at(G, HALF - 1, j) + sum_at(G, CHUNK - 1, j))
                )
            for i in T.Parallel(CHUNK):
                owns[i] = own[i]
            for i, j in T.Parallel(CHUNK, K):
                q_unit[i, j] = T.cast(T.cast(q_rows[i, j], "float32") * q_factor[i], "float16")
            for i, j in T.Parallel(CHUNK, K):
                k_unit[i, j] = T.cast(T.cast(k_rows[i, j], "float32") * k_factor[i], "float16")

            if numbers > K + 3 * CHUNK:
                for j in T.Parallel(numbers - K - 3 * CHUNK):  # copied, never read
                    vectors[packet, K + 3 * CHUNK + j] = 0.0

            # Pairs of tokens.
            T.clear(pairs_q)
            T.clear(pairs_k)
            products(0, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k)
            products(1, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k)
            products(2, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k)
            products(3, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k)
            products(4, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k)
            products(5, q_unit, k_unit, kept, G, rows_q, rows_k, of_q, of_k, pairs_q, pairs_k)
            for i, j in T.Parallel(CHUNK, CHUNK):
                M[i, j] = T.cast(T.if_then_else(i > j, pairs_q[i, j], T.if_then_else(i == j, owns[i], 0.0)), "float16")
            for i, j in T.Parallel(CHUNK, CHUNK):
                pairs_k[i, j] = T.if_then_else(i > j, betas[i] * pairs_k[i, j], 0.0)
            T.copy(pairs_k, L)
            for i, j in T.Parallel(CHUNK, CHUNK):
                if i // BLOCK == j // BLOCK:
                    diagonal[i, j % BLOCK] = pairs_k[i, j]
            for i, j in T.Parallel(CHUNK, CHUNK):
                X[i, j] = T.cast(0.0, "float16")
                Xt[i, j] = T.cast(0.0, "float16")

            # Operators that need no other tokens.
            for i, j in T.Parallel(CHUNK, K):
                from_begin = sum_at(G, i, j) + T.if_then_else(i < HALF, 0.0, sum_at(G, HALF - 1, j))
                kept[i, j] = T.cast(T.exp2(from_begin), "float16")
            for i, j in T.Parallel(CHUNK, K):
                operators[packet, i, j] = k_unit[i, j] * kept[i, j]
            for i, j in T.Parallel(CHUNK, K):
                operators[packet, CHUNK + i, j] = q_unit[i, j] * kept[i, j]
            for i, j in T.Parallel(CHUNK, K):
                to_half = T.if_then_else(i < HALF, sum_at(G, HALF - 1, j), 0.0)
                kept[i, j] = T.cast(T.exp2(sum_at(G, CHUNK - 1, j) - sum_at(G, i, j) + to_half), "float16")
            for i, j in T.Parallel(CHUNK, K):
                remaining[i, j] = k_unit[i, j] * kept[i, j]

            # The triangle: its blocks on the diagonal, then 16 to 32 to 64.
            if thread < CHUNK:
                solution = T.alloc_local((BLOCK,), "float32")
                block = thread // BLOCK * BLOCK
                for i in T.unroll(BLOCK):
                    solution[i] = T.if_then_else(thread % BLOCK == i, 1.0, 0.0)
                    for j in T.unroll(BLOCK):
                        if j < i:
                            solution[i] = solution[i] - diagonal[block + i, j] * solution[j]
                    X[block + i, thread] = T.cast(solution[i], "float16")
                    Xt[thread, block + i] = T.cast(solution[i], "float16")
            for merge in T.unroll(2, explicit=True):
                width = BLOCK << merge
                T.gemm(L, Xt, of_k, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(CHUNK, CHUNK):
                    below = T.And(i // width == j // width + 1, j // width % 2 == 0)
                    Pt[j, i] = T.cast(T.if_then_else(below, of_k[i, j], 0.0), "float16")
                T.gemm(X, Pt, of_k, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(CHUNK, CHUNK):
                    if T.And(i // width == j // width + 1, j // width % 2 == 0):
                        X[i, j] = T.cast(-of_k[i, j], "float16")
                        Xt[j, i] = T.cast(-of_k[i, j], "float16")

            T.wgmma_gemm(M, Xt, of_q, transpose_B=True, clear_accum=True)
            T.wgmma_gemm(Xt, remaining, Kr, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(of_q, B)
            T.copy(Kr, rows_k)
            T.copy(B, triangles[packet, :, :])
            T.copy(rows_k, operators[packet, 2 * CHUNK : 3 * CHUNK, :])

    return kda_prepare
