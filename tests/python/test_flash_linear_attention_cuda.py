"""Layers and a model of flash-linear-attention on a GPU: with fla_cpp registered they compute what they compute on that
library's own kernels."""

import fla_cpp
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if fla_cpp.why_no_cuda_device():
    pytest.skip(f"there is no GPU: {fla_cpp.why_no_cuda_device()}", allow_module_level=True)
if not torch.cuda.is_available():
    pytest.skip("this torch sees no GPU", allow_module_level=True)
pytest.importorskip("fla.backends", reason="flash-linear-attention 0.6.0 is not installed", exc_type=ImportError)
import fla.layers
import fla.models
from fla_cpp.flash_linear_attention import register, unregister
from test_flash_linear_attention_backend import taken

LAYERS = {
    "kda": lambda: fla.layers.KimiDeltaAttention(hidden_size=256, head_dim=64, num_heads=4),
    "gated_delta_rule": lambda: fla.layers.GatedDeltaNet(hidden_size=256, head_dim=64, num_heads=4),
    "delta_rule": lambda: fla.layers.DeltaNet(hidden_size=256, num_heads=4),
    "gla": lambda: fla.layers.GatedLinearAttention(hidden_size=256, num_heads=4),
    "retention": lambda: fla.layers.MultiScaleRetention(hidden_size=256, num_heads=4),
    "linear_attn": lambda: fla.layers.LinearAttention(hidden_size=256, num_heads=4),
    "dplr_delta_rule": lambda: fla.layers.RWKV7Attention(
        hidden_size=256, head_dim=64, layer_idx=0, num_hidden_layers=2
    ),
}


@pytest.fixture(autouse=True)
def nothing_is_left_registered():
    yield
    unregister()


def error(result, expected):
    return ((result.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)).item()


def step(layer, x):
    """The output, and the gradients by name."""
    layer.zero_grad()
    x.grad = None
    o = layer(x)[0]
    o.float().square().mean().backward()
    return o.detach(), {name: p.grad.clone() for name, p in layer.named_parameters() if p.grad is not None} | {"x": x.grad}


@pytest.mark.parametrize("op", LAYERS)
def test_a_layer_is_the_same_on_fla_cpp(op):
    torch.manual_seed(0)
    layer = LAYERS[op]().cuda().bfloat16().train()
    x = torch.randn(2, 200, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    expected, expected_gradients = step(layer, x)
    register()
    before = taken()
    o, gradients = step(layer, x)
    after = taken()
    assert after[f"chunk_{op}"] > before[f"chunk_{op}"]
    assert after[f"chunk_{op}_backward"] > before[f"chunk_{op}_backward"]
    assert error(o, expected) < 2e-2
    assert gradients.keys() == expected_gradients.keys()
    largest = max(gradient.double().norm() for gradient in expected_gradients.values())
    for name, gradient in expected_gradients.items():
        if gradient.double().norm() > 1e-4 * largest:  # what is nothing but rounding is not compared
            assert error(gradients[name], gradient) < 8e-2, name


def test_a_model_is_the_same_on_fla_cpp():
    torch.manual_seed(0)
    config = fla.models.KDAConfig(hidden_size=128, num_hidden_layers=2, num_heads=2, head_dim=64, vocab_size=100)
    model = fla.models.KDAForCausalLM(config).cuda().bfloat16().train()
    tokens = torch.randint(100, (2, 100), device="cuda")

    def loss():
        model.zero_grad()
        found = model(input_ids=tokens, labels=tokens).loss
        found.backward()
        return found.item()

    expected = loss()
    register()
    before = taken()
    assert loss() == pytest.approx(expected, rel=1e-2)
    assert taken()["chunk_kda"] == before["chunk_kda"] + 2
    assert taken()["chunk_kda_backward"] == before["chunk_kda_backward"] + 2
    with torch.no_grad():
        generated = model.eval().generate(tokens[:, :10], max_new_tokens=5, do_sample=False)
    assert generated.shape == (2, 15)
    assert taken()["fused_recurrent_kda"] > before["fused_recurrent_kda"]
