"""Functions of flash-linear-attention's modules by its names and paths, for tensors of torch, on the kernels of fla:
`from fla_cpp.modules.convolution import causal_conv1d`. They have no gradients."""

from fla_cpp.modules.fused_norm_gate import rms_norm_gated

__all__ = ["rms_norm_gated"]
