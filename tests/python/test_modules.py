"""The ops of a layer around its recurrence: short_conv and gated_rms_norm with arrays of NumPy and torch, and
flash-linear-attention's causal_conv1d and rms_norm_gated by their names."""

import importlib
import inspect

import fla_cpp
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from fla_cpp.modules.convolution import causal_conv1d, causal_conv1d_update
from fla_cpp.modules.fused_norm_gate import rms_norm_gated


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolved(x, weight, bias, state):
    """Of one sequence, x [T D] and state [D, any number of inputs], in float64: the outputs, and all inputs."""
    W = weight.shape[1]
    inputs = np.concatenate([np.zeros((x.shape[1], W)), state, x.T], axis=1).astype(np.float64)
    o = np.zeros(x.shape)
    for t in range(x.shape[0]):
        end = inputs.shape[1] - x.shape[0] + t + 1
        o[t] = (inputs[:, end - W : end] * weight).sum(1) + bias
    return o * sigmoid(o), inputs


def error(x, exact):
    return np.linalg.norm(np.asarray(x, np.float64) - exact) / np.linalg.norm(exact)


CALL = {"x": numbers(2, 9, 6), "weight": numbers(6, 4, seed=1), "bias": numbers(6, seed=2)}


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy])
def test_short_conv_agrees_with_a_loop(of):
    state = numbers(2, 6, 3, seed=3)
    call = {name: of(x) for name, x in CALL.items()}
    o, final = fla_cpp.short_conv(**call, initial_state=of(state), output_final_state=True, use_silu=True)
    for n in range(2):
        exact, inputs = convolved(CALL["x"][n], CALL["weight"], CALL["bias"], state[n])
        assert error(o[n], exact) < 1e-6
        assert np.array_equal(final[n], inputs[:, -3:].astype(np.float32))
    assert fla_cpp.short_conv(**call)[1] is None
    assert fla_cpp.explain("short_conv", **call).selected == "original"


def test_short_conv_updates_a_pool_in_its_place():
    pool = numbers(4, 6, 3, seed=3)
    before, x = pool.copy(), CALL["x"][:, :1]
    o, final = fla_cpp.short_conv(
        x, CALL["weight"], initial_state=pool, final_state=pool, state_indices=np.array([2, -1]), use_silu=True
    )
    assert final is pool
    assert error(o[0], convolved(x[0], CALL["weight"], 0, before[2])[0]) < 1e-6
    assert not o[1].any()
    assert np.array_equal(pool[2], np.concatenate([before[2, :, 1:], x[0].T], axis=1))
    assert np.array_equal(pool[[0, 1, 3]], before[[0, 1, 3]])


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy])
def test_a_step_is_its_three_ops_in_place_of_two_pools(of):
    heads, K, V, slots = 2, 8, 4, np.array([3, -1, 0])
    D = 2 * heads * K + heads * V
    call = {"x": numbers(3, 1, D), "conv_weight": numbers(D, 4, seed=1), "conv_state": numbers(4, D, 3, seed=2),
            "g": -np.abs(numbers(3, 1, heads, K, seed=3)), "beta": sigmoid(numbers(3, 1, heads, seed=4)),
            "z": numbers(3, 1, heads, V, seed=5), "state": numbers(4, heads, K, V, seed=6)}  # fmt: skip
    conv_pool, pool = call["conv_state"].copy(), call["state"].copy()
    y, _ = fla_cpp.short_conv(
        call["x"], call["conv_weight"], initial_state=conv_pool, final_state=conv_pool, state_indices=slots, use_silu=True
    )
    q, k, v = np.split(y, [heads * K, 2 * heads * K], axis=-1)
    q, k, v = q.reshape(3, 1, heads, K), k.reshape(3, 1, heads, K), v.reshape(3, 1, heads, V)
    o, _ = fla_cpp.fused_recurrent_kda(
        q, k, v, call["g"], call["beta"], initial_state=pool, final_state=pool, state_indices=slots
    )
    exact = fla_cpp.gated_rms_norm(o, call["z"])
    given = {name: of(x) for name, x in call.items()}
    found = fla_cpp.kda_step(**given, state_indices=of(slots))
    assert error(found, exact) < 1e-5
    assert not np.asarray(found)[1].any()
    assert error(given["state"], pool) < 1e-5
    assert np.array_equal(given["conv_state"], conv_pool)


def test_gated_rms_norm_agrees_with_float64():
    x, g, weight = numbers(2, 3, 2, 8), numbers(2, 3, 2, 8, seed=1), numbers(8, seed=2)
    exact = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * weight * sigmoid(g)
    assert error(fla_cpp.gated_rms_norm(x, g, weight, eps=1e-5), exact * g) < 1e-6
    assert error(fla_cpp.gated_rms_norm(x, g, weight, eps=1e-5, use_sigmoid=True), exact) < 1e-6
    given = torch.from_numpy(x.copy())
    o = fla_cpp.gated_rms_norm(given, torch.from_numpy(g), torch.from_numpy(weight), eps=1e-5, out=given)
    assert o is given and error(given.numpy(), exact * g) < 1e-6


def test_errors_name_the_op_and_the_argument():
    with pytest.raises(fla_cpp.InvalidArgument, match=r"^short_conv: weight: expected W from 2 to 4, got 5$"):
        fla_cpp.short_conv(CALL["x"], numbers(6, 5))
    with pytest.raises(TypeError, match="^short_conv: use_silu: expected True or False, got str$"):
        fla_cpp.short_conv(CALL["x"], CALL["weight"], use_silu="silu")
    with pytest.raises(fla_cpp.InvalidArgument, match="^gated_rms_norm: eps: expected 0 or more, got -1"):
        fla_cpp.gated_rms_norm(numbers(1, 1, 1, 2), numbers(1, 1, 1, 2), eps=-1)


@pytest.mark.parametrize("lengths", [None, [5, 0, 1, 3]])
@pytest.mark.parametrize("with_state", [False, True])
def test_causal_conv1d_has_flash_linear_attentions_states(lengths, with_state):
    x, weight, bias = (torch.from_numpy(CALL[name]) for name in ("x", "weight", "bias"))
    x = x if lengths is None else x[:1]
    counts = [9, 9] if lengths is None else lengths
    first = numbers(len(counts), 6, 4, seed=4) if with_state else np.zeros((len(counts), 6, 4), np.float32)
    starts = None if lengths is None else torch.tensor([0, *np.cumsum(lengths)])
    initial = torch.from_numpy(first) if with_state else None
    o, final = causal_conv1d(
        x, weight, bias, initial_state=initial, output_final_state=True, activation="silu", cu_seqlens=starts
    )
    begin = 0
    for n, count in enumerate(counts):
        own = x[n].numpy() if lengths is None else x[0, begin : begin + count].numpy()
        exact, inputs = convolved(own, CALL["weight"], CALL["bias"], first[n])
        found = o[n] if lengths is None else o[0, begin : begin + count]
        assert found.shape == exact.shape and (count == 0 or error(found, exact) < 1e-6)
        assert np.array_equal(final[n], inputs[:, -4:].astype(np.float32))
        begin += count


def test_causal_conv1d_update_has_the_bits_of_a_longer_call():
    x, weight = (torch.from_numpy(CALL[name]) for name in ("x", "weight"))
    whole, last = causal_conv1d(x, weight, output_final_state=True, activation="swish")
    _, cache = causal_conv1d(x[:, :4], weight, output_final_state=True, activation="swish")
    for t in range(4, 9):
        o, same = causal_conv1d_update(x[:, t], cache, weight=weight, activation="swish")
        assert same is cache and torch.equal(o, whole[:, t])
    assert torch.equal(cache, last)


def test_a_step_that_fails_leaves_the_cache_as_it_was():
    x, weight = (torch.from_numpy(CALL[name]) for name in ("x", "weight"))
    cache = torch.from_numpy(numbers(2, 6, 4, seed=4))
    before = cache.clone()
    with pytest.raises(fla_cpp.InvalidArgument, match=r"^short_conv: bias: expected shape \[D=6\], got \[5\]$"):
        causal_conv1d_update(x[:, 0], cache, weight=weight, bias=torch.zeros(5))
    with pytest.raises(fla_cpp.InvalidArgument, match="^short_conv: state_indices: expected entries below P=2"):
        fla_cpp.short_conv(
            x, weight, initial_state=cache[..., 1:], final_state=cache[..., 1:], state_indices=torch.tensor([1, 2])
        )
    assert torch.equal(cache, before)


@pytest.mark.parametrize("shape", [(7, 8), (2, 3, 8), (2, 3, 2, 8)])
@pytest.mark.parametrize("activation", ["swish", "sigmoid"])
def test_rms_norm_gated_takes_any_axes(shape, activation):
    x, g, weight = numbers(*shape), numbers(*shape, seed=1), numbers(8, seed=2)
    exact = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * weight * sigmoid(g)
    o = rms_norm_gated(*map(torch.from_numpy, (x, g, weight)), None, activation=activation)
    assert o.shape == shape and error(o, exact * g if activation == "swish" else exact) < 1e-6


def test_what_they_do_not_have_is_refused():
    x, weight = torch.from_numpy(CALL["x"]), torch.from_numpy(CALL["weight"])
    with pytest.raises(fla_cpp.InvalidArgument, match="^causal_conv1d: activation: expected None, 'silu' or 'swish'"):
        causal_conv1d(x, weight, activation="gelu")
    with pytest.raises(fla_cpp.InvalidArgument, match="^causal_conv1d: residual: expected None"):
        causal_conv1d(x, weight, residual=x)
    with pytest.raises(fla_cpp.InvalidArgument, match="^rms_norm_gated: bias: expected None"):
        rms_norm_gated(x, x, None, x)


def test_the_paths_of_flash_linear_attention_are_there():
    for path in ("conv", "convolution", "causal_conv1d"):
        assert importlib.import_module(f"fla_cpp.modules.{path}").causal_conv1d is causal_conv1d
    for path in ("fused_norm_gate", "norm"):
        assert importlib.import_module(f"fla_cpp.modules.{path}").rms_norm_gated is rms_norm_gated


def test_they_take_what_flash_linear_attentions_take():
    theirs = pytest.importorskip("fla.modules", reason="flash-linear-attention is not installed", exc_type=ImportError)

    def taken(function):
        return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]

    assert taken(causal_conv1d) == taken(theirs.convolution.causal_conv1d)
    assert taken(causal_conv1d_update) == taken(theirs.convolution.causal_conv1d_update)
    assert taken(rms_norm_gated) == taken(theirs.fused_norm_gate.rms_norm_gated)


def test_torch_compiles_them():
    x, weight = torch.from_numpy(CALL["x"]), torch.from_numpy(CALL["weight"])

    def layer(x):
        o, state = fla_cpp.short_conv(x, weight, output_final_state=True, use_silu=True)
        rows = o.view(2, 9, 2, 3)
        return fla_cpp.gated_rms_norm(rows, rows), state

    for found, expected in zip(torch.compile(layer, backend="eager", fullgraph=True)(x), layer(x)):
        assert torch.equal(found, expected)


def test_gradients_are_said_to_be_missing():
    x = torch.from_numpy(CALL["x"]).requires_grad_()
    o, _ = fla_cpp.short_conv(x, torch.from_numpy(CALL["weight"]))
    with pytest.raises(NotImplementedError, match="short_conv has no backward; call it under torch.no_grad"):
        o.sum().backward()
