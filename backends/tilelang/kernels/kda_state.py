"""The chain of states of chunk_kda: one block a sequence, value head and 64 columns of values.

    Y = w V - p Kt S        O = f (Qt S + B Y)        S' = diag(gamma) S + Kr^T Y

S is [K, 64] in registers, f32. Kt, Qt, Kr [64, K], B [64, 64], gamma [K] and w, p, f [64] are what kda_prepare made of the
chunk's 64 tokens. The next chunk's are on their way (cp.async) while one is worked on. With K = 256 there is no room for
two: the next one's take the place of this one's as soon as those have been used. V comes a chunk ahead, in registers.

S and Y are factors of products in f16, so they are kept in units of a power of two that follows the largest magnitude of
S and w V. The unit stays while that magnitude is between 2^LOW and 2^HIGH of it, which takes few instructions to see:
bits of S in f16 and a product a row of V. Everything else is rare, and out of the way.

A column of V that is not finite at some token is not finite from there on, and no other output is touched: such values
count as zeros in products, and the column's outputs and final state are NaN. For k, g, beta and q kda_prepare does the
same (its f and gamma are NaN). Rows of Kt, Qt, Kr and B and w, p of tokens that are not there are zero.
"""

import tilelang.language as T

from magnitudes import (
    LARGEST,
    NOTES,
    ZERO,
    bits_of,
    finite,
    is_rare,
    larger_of,
    largest_exponent,
    largest_of_row,
    not_a_number,
    note,
    power_of_two,
)
from packets import OF_KEYS, OF_OUTPUT, OF_VALUES, vector_width
from sequences import CHUNK, bound, first_place, index_at

COLUMNS = 64
THREADS = 128
LOW, UNIT, HIGH = -7, -3, 1  # powers of two that bits of f16 tell; Y has 2^8 at most then, and f16 ends at 2^16
FIRST = 3  # exponent of the unit at a sequence's first token: for numbers of about 1
NEVER = 2147483647


def kernel(K, dtype, varlen):
    stages = 2 if K <= 128 else 1
    width = vector_width(K)
    packets = T.dynamic("packets")

    @T.prim_func
    def kda_state(
        operators: T.Tensor((packets, 3 * CHUNK, K), "float16"),
        triangles: T.Tensor((packets, CHUNK, CHUNK), "float16"),
        vectors: T.Tensor((packets, width), "float32"),
        v: T.Tensor((T.dynamic("v_size", "int64"),), dtype),
        o: T.Tensor((T.dynamic("o_size", "int64"),), dtype),
        initial_state: T.Tensor((T.dynamic("initial_size", "int64"),), "float32"),
        final_state: T.Tensor((T.dynamic("final_size", "int64"),), "float32"),
        cu_seqlens: T.Tensor((T.dynamic("cu_seqlens_size"),), "int32"),
        read_slots: T.Tensor((T.dynamic("read_slots_size"),), "int32"),
        write_slots: T.Tensor((T.dynamic("write_slots_size"),), "int32"),
        N: T.int32,
        tokens: T.int32,
        HV: T.int32,
        V: T.int32,
        v_batch: T.int64,  # strides of v and o in eights of elements
        v_token: T.int64,
        v_head: T.int64,
        o_batch: T.int64,
        o_token: T.int64,
        o_head: T.int64,
        initial_slot: T.int64,
        initial_head: T.int64,
        initial_key: T.int64,
        initial_value: T.int64,
        final_slot: T.int64,
        final_head: T.int64,
        final_key: T.int64,
        final_value: T.int64,
        has_initial: T.int32,
        has_final: T.int32,
        pool: T.int32,
        has_read_slots: T.int32,
        read_slots_stride: T.int64,
        read_slots_wide: T.int32,
        has_write_slots: T.int32,
        write_slots_stride: T.int64,
        write_slots_wide: T.int32,
        cu_seqlens_stride: T.int64,
        cu_seqlens_wide: T.int32,
        scale: T.float32,
    ):
        with T.Kernel(N * HV * (V // COLUMNS), threads=THREADS) as item:
            T.annotate_restrict_buffers(initial_state, final_state)  # may be the same memory
            thread = T.get_thread_binding()
            Kt = T.alloc_shared((stages, CHUNK, K), "float16")
            Qt = T.alloc_shared((stages, CHUNK, K), "float16")
            Kr = T.alloc_shared((stages, CHUNK, K), "float16")
            B = T.alloc_shared((stages, CHUNK, CHUNK), "float16")
            numbers = T.alloc_shared((stages, width), "float32")  # gamma, w, p, f
            S16 = T.alloc_shared((K, COLUMNS), "float16")
            Y16 = T.alloc_shared((CHUNK, COLUMNS), "float16")
            O16 = T.alloc_shared((CHUNK, COLUMNS), dtype)
            spoilt = T.alloc_shared((COLUMNS,), "int32")  # the first token of a column that is not finite, or NEVER
            notes = T.alloc_shared((NOTES,), "int32")
            S = T.alloc_fragment((K, COLUMNS), "float32")
            Y = T.alloc_fragment((CHUNK, COLUMNS), "float32")
            O = T.alloc_fragment((CHUNK, COLUMNS), "float32")
            values = T.alloc_fragment((CHUNK, COLUMNS), dtype)
            halves = T.alloc_fragment((K, COLUMNS), "float16")
            exponent = T.alloc_var("int32")  # of the unit
            rare = T.alloc_var("int32")
            marked = T.alloc_var("int32")  # whether a column is spoilt
            chosen = T.alloc_var("int32")
            state_largest = T.alloc_var("float32")
            value_largest = T.alloc_var("float32")
            weights = T.alloc_local((2,), "float32")  # |w| of the rows of `values` that a thread has
            row = thread // 32 * 16 + thread % 32 // 4
            first = T.alloc_var("int32")
            column = T.alloc_var("int32")
            head = T.alloc_var("int32")
            n = T.alloc_var("int32")
            begin = T.alloc_var("int32")
            end = T.alloc_var("int32")
            batch = T.alloc_var("int32")
            place = T.alloc_var("int32")
            read_slot = T.alloc_var("int32")
            write_slot = T.alloc_var("int32")

            column = T.truncmod(item, V // COLUMNS)
            n = T.truncdiv(item, V // COLUMNS)
            head = T.truncmod(n, HV)
            n = T.truncdiv(n, HV)
            if varlen:
                begin = bound(cu_seqlens, n, cu_seqlens_stride, cu_seqlens_wide, tokens)
                end = T.max(bound(cu_seqlens, n + 1, cu_seqlens_stride, cu_seqlens_wide, tokens), begin)
                batch = 0
                place = first_place(begin, n)
            else:
                begin = 0
                end = tokens
                batch = n
                place = n * T.ceildiv(tokens, CHUNK)
            read_slot = n
            if has_read_slots != 0:
                read_slot = index_at(read_slots, n, read_slots_stride, read_slots_wide)
                if read_slot >= pool:
                    read_slot = -1
            write_slot = read_slot
            if has_write_slots != 0:
                write_slot = index_at(write_slots, n, write_slots_stride, write_slots_wide)
                if write_slot >= pool:
                    write_slot = -1
            chunks = T.ceildiv(end - begin, CHUNK)

            exponent = FIRST
            marked = 0
            if thread < COLUMNS:
                spoilt[thread] = NEVER
            if thread < NOTES:
                notes[thread] = -1
            T.clear(S)
            if T.And(has_initial != 0, read_slot >= 0):
                for i, j in T.Parallel(K, COLUMNS):
                    S[i, j] = power_of_two(-FIRST) * initial_state[
                        read_slot * initial_slot
                        + head * initial_head
                        + i * initial_key
                        + (column * COLUMNS + j) * initial_value
                    ]

            if chunks > 0:
                T.async_copy(operators[place * HV + head, 0:CHUNK, :], Kt[0, :, :])
                T.async_copy(operators[place * HV + head, CHUNK : 2 * CHUNK, :], Qt[0, :, :])
                T.async_copy(operators[place * HV + head, 2 * CHUNK : 3 * CHUNK, :], Kr[0, :, :])
                T.async_copy(triangles[place * HV + head, :, :], B[0, :, :])
                T.async_copy(vectors[place * HV + head, :], numbers[0, :])
                weights[0] = T.abs(vectors[place * HV + head, K + OF_VALUES + row])
                weights[1] = T.abs(vectors[place * HV + head, K + OF_VALUES + row + 8])
                # Not past the last token: what is read in its place is not used.
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    values[i, j] = v[
                        (batch * v_batch + T.min(begin + i, end - 1) * v_token + head * v_head) * 8
                        + column * COLUMNS
                        + j
                    ]

            for c in T.serial(chunks):
                stage = c % stages
                after = (place + T.min(c + 1, chunks - 1)) * HV + head
                if stages > 1:
                    T.async_copy(operators[after, 0:CHUNK, :], Kt[1 - stage, :, :])
                    T.async_copy(operators[after, CHUNK : 2 * CHUNK, :], Qt[1 - stage, :, :])
                    T.async_copy(operators[after, 2 * CHUNK : 3 * CHUNK, :], Kr[1 - stage, :, :])
                    T.async_copy(triangles[after, :, :], B[1 - stage, :, :])
                    T.async_copy(vectors[after, :], numbers[1 - stage, :])

                # The unit: noted before a barrier that comes with the wait for copies, and read after it.
                T.copy(S, halves)
                note(
                    notes,
                    c,
                    bits_of(halves, K * COLUMNS // THREADS),
                    larger_of(weights[0] * largest_of_row(values, 0), weights[1] * largest_of_row(values, 1)),
                    power_of_two(exponent + LOW),
                    power_of_two(exponent + HIGH),
                )
                if stages > 1:
                    T.ptx_wait_group(5)
                else:
                    T.ptx_wait_group(0)

                if stages == 1:  # no registers to keep `halves` in
                    T.copy(halves, S16)
                rare = is_rare(notes, c)
                if rare != 0:
                    first = NEVER
                    if thread < COLUMNS:
                        first = spoilt[thread]
                        for i in T.serial(CHUNK):
                            if T.And(begin + c * CHUNK + i < end, first == NEVER):
                                if T.Not(
                                    finite(
                                        numbers[stage, OF_VALUES + K + i]
                                        * T.cast(
                                            v[
                                                (batch * v_batch + (begin + c * CHUNK + i) * v_token + head * v_head)
                                                * 8
                                                + column * COLUMNS
                                                + thread
                                            ],
                                            "float32",
                                        )
                                    )
                                ):
                                    first = c * CHUNK + i
                        spoilt[thread] = first
                    marked = T.syncthreads_or(T.if_then_else(first < NEVER, 1, 0))
                    state_largest = 0.0
                    for i, j in T.Parallel(K, COLUMNS):
                        state_largest = T.max(state_largest, T.if_then_else(finite(S[i, j]), T.abs(S[i, j]), 0.0))
                    value_largest = 0.0
                    for i, j in T.Parallel(CHUNK, COLUMNS):
                        weighted = numbers[stage, OF_VALUES + K + i] * T.cast(values[i, j], "float32")
                        values[i, j] = T.if_then_else(finite(weighted), values[i, j], T.cast(0.0, dtype))
                        value_largest = T.max(value_largest, T.if_then_else(finite(weighted), T.abs(weighted), 0.0))
                    chosen = largest_exponent(notes, state_largest, value_largest, exponent)
                    if T.And(chosen > ZERO, T.Or(chosen - exponent < LOW, chosen - exponent >= HIGH)):
                        chosen = T.min(T.max(chosen - UNIT, -119), 126)
                        for i, j in T.Parallel(K, COLUMNS):
                            S[i, j] = S[i, j] * power_of_two(T.max(T.min(exponent - chosen, 126), -126))
                        exponent = chosen
                    T.copy(S, halves)
                    if stages == 1:
                        T.copy(halves, S16)
                if stages > 1:
                    T.copy(halves, S16)
                for i, j in T.Parallel(K, COLUMNS):
                    S[i, j] = S[i, j] * numbers[stage, i]
                T.wgmma_gemm(Kt[stage, :, :], S16, Y, clear_accum=True)
                T.wgmma_gemm(Qt[stage, :, :], S16, O, clear_accum=True)
                T.wait_wgmma(0)
                if stages == 1:
                    T.sync_threads()
                    T.async_copy(operators[after, 0:CHUNK, :], Kt[0, :, :])
                    T.async_copy(operators[after, CHUNK : 2 * CHUNK, :], Qt[0, :, :])
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    weight = T.max(
                        T.min(numbers[stage, OF_VALUES + K + i] * power_of_two(-exponent), LARGEST), -LARGEST
                    )  # finite, for values of 0
                    Y[i, j] = weight * T.cast(values[i, j], "float32") - numbers[stage, OF_KEYS + K + i] * Y[i, j]
                T.copy(Y, Y16)
                weights[0] = T.abs(vectors[after, K + OF_VALUES + row])
                weights[1] = T.abs(vectors[after, K + OF_VALUES + row + 8])
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    values[i, j] = v[
                        (batch * v_batch + T.min(begin + (c + 1) * CHUNK + i, end - 1) * v_token + head * v_head) * 8
                        + column * COLUMNS
                        + j
                    ]
                T.wgmma_gemm(Kr[stage, :, :], Y16, S, transpose_A=True)
                T.wgmma_gemm(B[stage, :, :], Y16, O)
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(S, num_regs=K * COLUMNS // THREADS)  # or it is read before
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    O[i, j] = T.if_then_else(
                        read_slot >= 0,
                        numbers[stage, OF_OUTPUT + K + i] * scale * power_of_two(exponent) * O[i, j],
                        0.0,
                    )
                if marked != 0:
                    for i, j in T.Parallel(CHUNK, COLUMNS):
                        O[i, j] = T.if_then_else(
                            T.And(read_slot >= 0, c * CHUNK + i >= spoilt[j]), not_a_number(), O[i, j]
                        )
                if stages == 1:
                    T.sync_threads()  # a warp's products may be done before another's
                    T.async_copy(operators[after, 2 * CHUNK : 3 * CHUNK, :], Kr[0, :, :])
                    T.async_copy(triangles[after, :, :], B[0, :, :])
                    T.async_copy(vectors[after, :], numbers[0, :])
                T.copy(O, O16)
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    if begin + c * CHUNK + i < end:
                        o[
                            (batch * o_batch + (begin + c * CHUNK + i) * o_token + head * o_head) * 8
                            + column * COLUMNS
                            + j
                        ] = O16[i, j]

            T.ptx_wait_group(0)  # the last chunk was asked for once more
            if T.And(has_final != 0, T.And(read_slot >= 0, write_slot >= 0)):
                for i, j in T.Parallel(K, COLUMNS):
                    final_state[
                        write_slot * final_slot
                        + head * final_head
                        + i * final_key
                        + (column * COLUMNS + j) * final_value
                    ] = T.if_then_else(spoilt[j] < NEVER, not_a_number(), power_of_two(exponent) * S[i, j])

    return kda_state
