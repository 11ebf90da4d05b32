"""flash-linear-attention's gated norm."""

import fla_cpp
from fla_cpp._signatures import refuse

__all__ = ["rms_norm_gated"]


def rms_norm_gated(
    x, g, weight, bias, activation="swish", residual=None, prenorm=False, residual_in_fp32=False, eps=1e-6
):
    """x * rsqrt(mean(x^2) + eps) * weight, times silu(g) or sigmoid(g), over the last axis of x and g, which may have any
    others."""
    if activation not in ("swish", "silu", "sigmoid"):
        refuse("rms_norm_gated", "activation", "'swish', 'silu' or 'sigmoid'", activation)
    for name, value in (("bias", bias), ("residual", residual)):
        if value is not None:
            refuse("rms_norm_gated", name, "None", type(value).__name__)
    if prenorm:
        refuse("rms_norm_gated", "prenorm", "False", prenorm)
    rows = (1, -1, 1, x.shape[-1])
    o = fla_cpp.gated_rms_norm(
        x.reshape(rows), g.reshape(rows), weight, eps=eps, use_sigmoid=activation == "sigmoid"
    )
    return o.view(x.shape)
