"""Kimi Delta Attention as programs for flash-linear-attention call it. `case` holds tensors and options by their
arguments' names."""

import torch
from fla.ops.kda import chunk_kda, fused_recurrent_kda


def prefill(case):
    o, final_state = chunk_kda(
        q=case["q"],
        k=case["k"],
        v=case["v"],
        g=case["g"],
        beta=case["beta"],
        A_log=case.get("A_log"),
        dt_bias=case.get("dt_bias"),
        scale=case.get("scale"),
        initial_state=case.get("initial_state"),
        output_final_state=True,
        use_qk_l2norm_in_kernel=case.get("use_qk_l2norm_in_kernel", False),
        use_gate_in_kernel=case.get("use_gate_in_kernel", False),
        use_beta_sigmoid_in_kernel=case.get("use_beta_sigmoid_in_kernel", False),
        allow_neg_eigval=case.get("allow_neg_eigval", False),
        safe_gate=case.get("safe_gate", False),
        lower_bound=case.get("lower_bound"),
        state_v_first=case.get("state_v_first", False),
        cu_seqlens=case.get("cu_seqlens"),
        disable_recompute=False,
        return_intermediate_states=False,
        cp_context=None,
    )
    return o, final_state


def prefill_by_position(case):
    """The same, with everything that has a place in its place."""
    return chunk_kda(
        case["q"],
        case["k"],
        case["v"],
        case["g"],
        case["beta"],
        case.get("scale"),
        case.get("initial_state"),
        True,
        case.get("use_qk_l2norm_in_kernel", False),
        case.get("use_gate_in_kernel", False),
        case.get("use_beta_sigmoid_in_kernel", False),
        case.get("allow_neg_eigval", False),
        case.get("safe_gate", False),
        case.get("lower_bound"),
        False,
        False,
        case.get("state_v_first", False),
        case.get("cu_seqlens"),
        A_log=case.get("A_log"),
        dt_bias=case.get("dt_bias"),
        chunk_size=64,
    )


def generate(case, prompt):
    """A prompt of so many tokens in one call, then token by token."""
    options = {
        name: case[name]
        for name in (
            "A_log",
            "dt_bias",
            "scale",
            "use_qk_l2norm_in_kernel",
            "use_gate_in_kernel",
            "use_beta_sigmoid_in_kernel",
            "allow_neg_eigval",
            "lower_bound",
            "state_v_first",
        )
        if name in case
    }
    tensors = [case[name] for name in ("q", "k", "v", "g", "beta")]
    with torch.inference_mode():
        o, state = chunk_kda(
            *(x[:, :prompt] for x in tensors),
            initial_state=case.get("initial_state"),
            output_final_state=True,
            **options,
        )
        outputs = [o]
        for t in range(prompt, tensors[0].shape[1]):
            o, state = fused_recurrent_kda(
                *(x[:, t : t + 1] for x in tensors), initial_state=state, output_final_state=True, **options
            )
            outputs.append(o)
    return torch.cat(outputs, dim=1), state
