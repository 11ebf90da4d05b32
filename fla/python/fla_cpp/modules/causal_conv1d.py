"""Another path of fla_cpp.modules.convolution, as in flash-linear-attention."""

from fla_cpp.modules.convolution import causal_conv1d, causal_conv1d_update

__all__ = ["causal_conv1d", "causal_conv1d_update"]
