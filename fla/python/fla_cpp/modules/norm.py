"""Another path of fla_cpp.modules.fused_norm_gate, as in flash-linear-attention."""

from fla_cpp.modules.fused_norm_gate import rms_norm_gated

__all__ = ["rms_norm_gated"]
