"""Where flash-linear-attention's functions take other arguments than an op's table has, or in another order.

A function that is not named here has its table's arguments in the table's order."""

# The arguments that may be given by position, in that library's order; the rest of the table follows by keyword.
POSITIONS = {
    "chunk_kda": (
        "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel use_gate_in_kernel"
        " use_beta_sigmoid_in_kernel allow_neg_eigval safe_gate lower_bound disable_recompute"
        " return_intermediate_states state_v_first cu_seqlens cu_seqlens_cpu cp_context use_graph max_num_seqs"
    ),
    "fused_recurrent_kda": (
        "q k v g beta A_log dt_bias scale initial_state output_final_state use_qk_l2norm_in_kernel"
        " use_gate_in_kernel use_beta_sigmoid_in_kernel allow_neg_eigval lower_bound state_v_first cu_seqlens"
    ),
}
POSITIONS["kda"] = POSITIONS["chunk_kda"]  # either can stand for the other

# Arguments that no table has: their default and what is made of them. An empty statement: they change nothing here.
EXTRAS = {
    "disable_recompute": ("False", "what backward passes keep; there is none here", ""),
    "return_intermediate_states": (
        "False",
        "must be False",
        "if return_intermediate_states: _refuse('return_intermediate_states', 'False', return_intermediate_states)",
    ),
    "cu_seqlens_cpu": (
        "None",
        "cu_seqlens on the host; taken where cu_seqlens is left out",
        "if cu_seqlens is None: cu_seqlens = cu_seqlens_cpu",
    ),
    "cp_context": ("None", "must be None", "if cp_context is not None: _refuse('cp_context', 'None', cp_context)"),
    "use_graph": ("False", "changes nothing: calls can be captured in a CUDA graph as they are", ""),
    "max_num_seqs": ("None", "changes nothing", ""),
    "chunk_size": (
        "64",
        "32 or 64; changes nothing: results do not depend on it",
        "if chunk_size != 64 and chunk_size != 32: _refuse_chunk_size(chunk_size)",
    ),
    "transpose_state_layout": (
        "None",
        "the old name of state_v_first, which warns",
        "if transpose_state_layout is not None:"
        " state_v_first = _of_old_name('transpose_state_layout', transpose_state_layout, 'state_v_first', state_v_first)",
    ),
}

# Those of them that a function takes by keyword, beside what stands in its positions.
KEYWORDS = {
    "chunk_kda": ("chunk_size", "transpose_state_layout"),
    "fused_recurrent_kda": ("transpose_state_layout",),
}
KEYWORDS["kda"] = KEYWORDS["chunk_kda"]
