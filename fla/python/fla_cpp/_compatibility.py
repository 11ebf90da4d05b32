"""Where flash-linear-attention's functions take other arguments than an op's table has, or in another order.

A function that is not named here has its table's arguments, those that must be given first."""

# The arguments that may be given by position, in that library's order; the rest of the table follows by keyword.
_STATES = " scale initial_state output_final_state"
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
    "chunk_gated_delta_rule": (
        f"q k v g beta{_STATES} use_qk_l2norm_in_kernel use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first"
        " cu_seqlens cu_seqlens_cpu chunk_indices cp_context"
    ),
    "fused_recurrent_gated_delta_rule": (
        f"q k v g gk gv beta{_STATES} use_qk_l2norm_in_kernel use_gate_in_kernel A_log dt_bias"
        " use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first cu_seqlens"
    ),
    "chunk_delta_rule": f"q k v beta{_STATES} use_qk_l2norm_in_kernel cu_seqlens cu_seqlens_cpu",
    "fused_recurrent_delta_rule": f"q k v beta{_STATES} use_qk_l2norm_in_kernel cu_seqlens",
    "chunk_gla": f"q k v g{_STATES} state_v_first cu_seqlens cu_seqlens_cpu",
    "fused_recurrent_gla": f"q k v gk gv{_STATES} reverse state_v_first cu_seqlens",
    "chunk_simple_gla": f"q k v g g_gamma{_STATES} state_v_first cu_seqlens cu_seqlens_cpu",
    "fused_recurrent_simple_gla": f"q k v g g_gamma{_STATES} reverse state_v_first cu_seqlens",
    "chunk_retention": f"q k v{_STATES} cu_seqlens",
    "fused_recurrent_retention": f"q k v{_STATES} reverse state_v_first cu_seqlens",
    "chunk_lightning_attn": f"q k v layer_idx num_layers{_STATES} cu_seqlens",
    "fused_recurrent_lightning_attn": f"q k v layer_idx num_layers{_STATES} reverse cu_seqlens",
    "chunk_linear_attn": f"q k v{_STATES} normalize cu_seqlens",
    "fused_recurrent_linear_attn": f"q k v{_STATES} reverse normalize cu_seqlens",
    "chunk_dplr_delta_rule": (
        f"q k v a b gk{_STATES} cu_seqlens cu_seqlens_cpu safe_gate chunk_size disable_recompute cp_context lower_bound"
    ),
    "fused_recurrent_dplr_delta_rule": f"q k v a b gk{_STATES} reverse cu_seqlens",
    "chunk_iplr_delta_rule": f"q k v a b{_STATES} cu_seqlens cu_seqlens_cpu",
    "fused_recurrent_iplr_delta_rule": f"q k v a b{_STATES} cu_seqlens",
}
POSITIONS |= {
    "chunk_rwkv7": (
        f"r w k v a b{_STATES} cu_seqlens cu_seqlens_cpu safe_gate chunk_size disable_recompute cp_context lower_bound"
    ),
    "fused_recurrent_rwkv7": f"r w k v a b{_STATES} cu_seqlens",
}
# A front door takes what the chunked function takes: either can stand for the other.
POSITIONS |= {name[len("chunk_") :]: order for name, order in POSITIONS.items() if name.startswith("chunk_")}

# Defaults that are not the table's.
DEFAULTS = {
    "chunk_linear_attn": {"normalize": "True"},
    "linear_attn": {"normalize": "True"},
    "chunk_rwkv7": {"scale": "1.0"},
    "rwkv7": {"scale": "1.0"},
    "fused_recurrent_rwkv7": {"output_final_state": "True"},
}

# Aliases: the function that runs, the op that is called, and the arguments that have other names.
ALIASES = {
    f"{prefix}rwkv7": (f"{prefix}dplr_delta_rule", "rwkv7", {"q": "r", "g": "w"})
    for prefix in ("", "chunk_", "fused_recurrent_")
}

# Arguments that no table has: their default and what is made of them, OP being the op. An empty statement: they change
# nothing here.
# "function.argument" is that of one function, "op." of all functions of an op.
EXTRAS = {
    "gk": ("None", "another name of g", "if g is None: g = gk"),
    "fused_recurrent_gated_delta_rule.gk": ("None", "must be None", "if gk is not None: refuse(OP, 'gk', 'None', gk)"),
    "gv": ("None", "must be None", "if gv is not None: refuse(OP, 'gv', 'None', gv)"),
    "reverse": ("False", "must be False", "if reverse: refuse(OP, 'reverse', 'False', reverse)"),
    "chunk_indices": ("None", "changes nothing", ""),
    "dplr_delta_rule.safe_gate": ("False", "changes nothing: gates may be as strong as they like", ""),
    "dplr_delta_rule.lower_bound": ("None", "changes nothing: gates may be as strong as they like", ""),
    "dplr_delta_rule.chunk_size": ("None", "changes nothing: results do not depend on it", ""),
    "disable_recompute": ("False", "changes nothing: of a call only its inputs are kept", ""),
    "return_intermediate_states": (
        "False",
        "with tensors of torch: a third result, the states before every 64 tokens of a sequence, in q's dtype",
        "",
    ),
    "cu_seqlens_cpu": (
        "None",
        "cu_seqlens on the host; taken where cu_seqlens is left out",
        "if cu_seqlens is None: cu_seqlens = cu_seqlens_cpu",
    ),
    **{
        f"{function}.cp_context": (
            "None",
            "must be None",
            "if cp_context is not None: refuse(OP, 'cp_context', 'None', cp_context)",
        )
        for function in ("rwkv7", "chunk_rwkv7")
    },
    "cp_context": ("None", "of fla_cpp.ops.cp.build_cp_context: a call with tensors of torch over the ranks of a group", ""),
    "use_graph": ("False", "changes nothing: calls can be captured in a CUDA graph as they are", ""),
    "max_num_seqs": ("None", "changes nothing", ""),
    "chunk_size": (
        "64",
        "32 or 64; changes nothing: results do not depend on it",
        "if chunk_size != 64 and chunk_size != 32: _refuse_chunk_size(OP, chunk_size)",
    ),
    "gated_delta_rule.chunk_size": (
        "64",
        "16, 32 or 64; changes nothing: results do not depend on it",
        "if chunk_size not in (16, 32, 64): _refuse_chunk_size(OP, chunk_size, '16, 32, or 64')",
    ),
    "delta_rule.chunk_size": (
        "64",
        "16, 32 or 64; changes nothing: results do not depend on it",
        "if chunk_size not in (16, 32, 64): _refuse_chunk_size(OP, chunk_size, '16, 32, or 64')",
    ),
    **{
        f"{op}.chunk_size": ("None", "changes nothing: results do not depend on it", "")
        for op in ("simple_gla", "retention", "lightning_attn", "iplr_delta_rule")
    },
    "transpose_state_layout": (
        "None",
        "the old name of state_v_first, which warns",
        "if transpose_state_layout is not None:"
        " state_v_first = _of_old_name(OP, 'transpose_state_layout', transpose_state_layout, 'state_v_first', state_v_first)",
    ),
}

# Those of them that a function takes by keyword, beside what stands in its positions.
KEYWORDS = {
    "chunk_kda": ("chunk_size", "transpose_state_layout"),
    "chunk_gated_delta_rule": ("chunk_size", "transpose_state_layout"),
} | {f"chunk_{op}": ("chunk_size",) for op in ("delta_rule", "simple_gla", "retention", "lightning_attn", "iplr_delta_rule")}
for _op in ("delta_rule", "gla", "simple_gla", "retention", "lightning_attn", "linear_attn", "iplr_delta_rule"):
    KEYWORDS[f"chunk_{_op}"] = (*KEYWORDS.get(f"chunk_{_op}", ()), "cp_context")
KEYWORDS |= {name[len("chunk_") :]: keywords for name, keywords in KEYWORDS.items()}
KEYWORDS |= {
    f"fused_recurrent_{op}": ("transpose_state_layout",) for op in ("kda", "gated_delta_rule", "gla", "simple_gla", "retention")
}


MOST_CHANNELS = 256  # keys, and values, of a head in one call

# Calls that are made of several (_composed.py): the condition, the function there, and a sentence for the documentation.
_STATES_TOO = "return_intermediate_states and _expect_torch(OP, q, 'return_intermediate_states')"
_SUMS = "with normalize and tensors of torch a state is a pair: the state, and the sum of the keys so far, [N 1 H K]"
_WIDE = f"with tensors of torch there may be more than {MOST_CHANNELS} keys or values"
COMPOSED = {f"{prefix}kda": [(_STATES_TOO, "with_intermediate_states", "")] for prefix in ("", "chunk_")}
COMPOSED |= {
    f"{prefix}{op}": [("_is_wide(q, v)", "in_parts", _WIDE)]
    for prefix in ("", "chunk_", "fused_recurrent_")
    for op in ("gla", "simple_gla", "retention", "lightning_attn", "linear_attn")
}
for _name in ("linear_attn", "chunk_linear_attn", "fused_recurrent_linear_attn"):
    _when = "normalize and _is_torch(q) and (output_final_state or isinstance(initial_state, tuple) or _is_wide(q, v))"
    COMPOSED[_name].insert(0, (_when, "with_sums_of_keys", _SUMS))
for _name in [name for name in POSITIONS if not name.startswith("fused_recurrent_") and not name.endswith("rwkv7")]:
    COMPOSED[_name] = [("_is_over_ranks(OP, cp_context)", "over_ranks", ""), *COMPOSED.get(_name, ())]


# Where flash-linear-attention keeps an op under another name as well.
_OTHER_PATHS = {f"{part}plr_delta_rule": "generalized_delta_rule" for part in "di"}


def paths_of(function):
    """The modules of fla_cpp.ops that have a function: its op's, and where else it is looked for."""
    op = function.removesuffix("_summary")
    for prefix in ("chunk_", "fused_recurrent_", "replay_", "fold_"):
        op = op.removeprefix(prefix)
    return [op] + [path for path in [_OTHER_PATHS.get(op)] if path]


def with_aliases(functions):
    """The extension's functions and their aliases. `target` names the one that runs, `called` the op that its callers
    know, `names` are the arguments that have other names there."""
    functions = [function | {"target": function["name"], "called": function["op"], "names": {}} for function in functions]
    found = {function["name"]: function for function in functions}
    for name, (target, called, names) in ALIASES.items():
        table = [row | {"name": names.get(row["name"], row["name"])} for row in found[target]["table"]]
        doc = f"RWKV-7: {target} under its names."
        formula = found[target]["formula"]
        for old, new in names.items():
            formula = formula.replace(f"{old}_t", f"{new}_t")
        alias = {"name": name, "called": called, "names": names, "table": table, "doc": doc, "formula": formula}
        functions.append(found[target] | alias)
    return functions


def extra(op, function, name):
    """The default, the documentation and the statement of an argument that no table has."""
    for key in (f"{function}.{name}", f"{op}.{name}", name):
        if key in EXTRAS:
            return EXTRAS[key]
    raise KeyError(f"{function}: {name}")
