"""The chain of states of chunk_kda: one block a sequence, value head and 64 columns of values.

    Y = V - Kt S        O = Qt S + B Y        S' = diag(gamma) S + Kr^T Y

S is [K, 64] in registers, f32, and holds a sixteenth of the state, as Y does of its values: f16 factors then reach
states of a million. Kt, Qt, Kr [64, K], B [64, 64] and gamma [K] are what kda_prepare made of the chunk's 64 tokens.
The next chunk's are on their way (cp.async) while one is worked on. With K = 256 there is no room for two: the next
one's take the place of this one's as soon as those have been used. V comes a chunk ahead, in registers.

Rows of Kt, Qt, Kr and B of tokens that are not there are zero. Values of such tokens may be anything, so Y is selected.
"""

import tilelang.language as T

from sequences import CHUNK, bound, first_place, index_at

COLUMNS = 64
THREADS = 128


def kernel(K, dtype, varlen):
    stages = 2 if K <= 128 else 1
    packets = T.dynamic("packets")

    @T.prim_func
    def kda_state(
        operators: T.Tensor((packets, 3 * CHUNK, K), "float16"),
        triangles: T.Tensor((packets, CHUNK, CHUNK), "float16"),
        decays: T.Tensor((packets, K), "float32"),
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
            Kt = T.alloc_shared((stages, CHUNK, K), "float16")
            Qt = T.alloc_shared((stages, CHUNK, K), "float16")
            Kr = T.alloc_shared((stages, CHUNK, K), "float16")
            B = T.alloc_shared((stages, CHUNK, CHUNK), "float16")
            gamma = T.alloc_shared((stages, K), "float32")
            S16 = T.alloc_shared((K, COLUMNS), "float16")
            Y16 = T.alloc_shared((CHUNK, COLUMNS), "float16")
            O16 = T.alloc_shared((CHUNK, COLUMNS), dtype)
            S = T.alloc_fragment((K, COLUMNS), "float32")
            Y = T.alloc_fragment((CHUNK, COLUMNS), "float32")
            O = T.alloc_fragment((CHUNK, COLUMNS), "float32")
            values = T.alloc_fragment((CHUNK, COLUMNS), dtype)
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

            T.clear(S)
            if T.And(has_initial != 0, read_slot >= 0):
                for i, j in T.Parallel(K, COLUMNS):
                    S[i, j] = 0.0625 * initial_state[
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
                T.async_copy(decays[place * HV + head, :], gamma[0, :])
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
                    T.async_copy(decays[after, :], gamma[1 - stage, :])
                    T.ptx_wait_group(5)
                else:
                    T.ptx_wait_group(0)

                T.copy(S, S16)
                for i, j in T.Parallel(K, COLUMNS):
                    S[i, j] = S[i, j] * gamma[stage, i]
                T.wgmma_gemm(Kt[stage, :, :], S16, Y, clear_accum=True)
                T.wgmma_gemm(Qt[stage, :, :], S16, O, clear_accum=True)
                T.wait_wgmma(0)
                if stages == 1:
                    T.sync_threads()
                    T.async_copy(operators[after, 0:CHUNK, :], Kt[0, :, :])
                    T.async_copy(operators[after, CHUNK : 2 * CHUNK, :], Qt[0, :, :])
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    Y[i, j] = T.if_then_else(
                        begin + c * CHUNK + i < end, 0.0625 * T.cast(values[i, j], "float32") - Y[i, j], 0.0
                    )
                T.copy(Y, Y16)
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    values[i, j] = v[
                        (batch * v_batch + T.min(begin + (c + 1) * CHUNK + i, end - 1) * v_token + head * v_head) * 8
                        + column * COLUMNS
                        + j
                    ]
                T.wgmma_gemm(Kr[stage, :, :], Y16, S, transpose_A=True)
                T.wgmma_gemm(B[stage, :, :], Y16, O)
                T.wait_wgmma(0)
                if stages == 1:
                    T.sync_threads()  # a warp's products may be done before another's
                    T.async_copy(operators[after, 2 * CHUNK : 3 * CHUNK, :], Kr[0, :, :])
                    T.async_copy(triangles[after, :, :], B[0, :, :])
                    T.async_copy(decays[after, :], gamma[0, :])
                for i, j in T.Parallel(CHUNK, COLUMNS):
                    O[i, j] = T.if_then_else(read_slot >= 0, 16.0 * scale * O[i, j], 0.0)
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
                    ] = 16.0 * S[i, j]

    return kda_state
