"""Every op of the family, on NumPy arrays: the golden cases, flash-linear-attention's names and paths, and what is refused."""

import importlib
import json
import struct

import cases
import fla_cpp
import numpy as np
import pytest

FILES = sorted(cases.GOLDEN[0].parent.glob("*.safetensors"))


def op_of(path):
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    return json.loads(raw[8 : 8 + size])["__metadata__"]["op"]


def arrays(case):
    return {name: cases.numbers(x) if name in case.bf16 else x for name, x in case.tensors.items()}


def error(result, expected):
    difference = np.linalg.norm((result.astype(np.float64) - expected).ravel())
    return difference / max(np.linalg.norm(expected.astype(np.float64).ravel()), 1e-30)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_cases_agree(path):
    case, op = cases.Case(path), op_of(path)
    options = case.options | ({"normalize": False} if op == "linear_attn" else {})
    for name in (op, f"chunk_{op}", f"fused_recurrent_{op}"):
        o, state = getattr(fla_cpp, name)(**arrays(case), **options, output_final_state=True)
        assert error(o, case.expected["o"]) < case.tolerance
        assert error(state, case.expected["final_state"]) < case.tolerance


@pytest.mark.parametrize("op", sorted({op_of(path) for path in FILES}))
def test_the_paths_of_flash_linear_attention_are_there(op):
    folder = "generalized_delta_rule" if op == "dplr_delta_rule" else op
    module = importlib.import_module(f"fla_cpp.ops.{folder}")
    for name in (f"chunk_{op}", f"fused_recurrent_{op}"):
        assert getattr(module, name) is getattr(fla_cpp, name)
    assert op in [status.name for status in fla_cpp.ops()]


def tokens(*shape):
    return np.ones(shape, np.float32)


CALL = [tokens(1, 3, 2, 8)] * 3


def test_other_names_stand_for_gates():
    g = -tokens(1, 3, 2, 8)
    (o, _), (other, _) = fla_cpp.fused_recurrent_gla(*CALL, g=g), fla_cpp.fused_recurrent_gla(*CALL, gk=g)
    assert np.array_equal(o, other)
    assert np.array_equal(o, fla_cpp.fused_recurrent_gla(*CALL, g)[0])


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("fused_recurrent_gla", {"gk": -CALL[0], "gv": CALL[0]}, "gv: expected None"),
        ("fused_recurrent_gla", {"gk": -CALL[0], "reverse": True}, "reverse: expected False"),
        ("fused_recurrent_gla", {}, r"g: expected a tensor of shape \[B=1, T=3, HV=2, K=8\], got none"),
        ("fused_recurrent_gated_delta_rule", {"g": -tokens(1, 3, 2)}, r"beta: expected a tensor of shape \[B=1, T=3, HV=2\]"),
        ("fused_recurrent_gated_delta_rule", {"g": -tokens(1, 3, 2), "gk": CALL[0]}, "gk: expected None"),
        ("chunk_simple_gla", {}, "g: expected g or g_gamma, got neither"),
        ("chunk_lightning_attn", {"layer_idx": 3, "num_layers": 3}, "layer_idx: expected a whole number from 0 to 2"),
    ],
)
def test_what_is_wrong_is_refused_by_name(name, options, words):
    with pytest.raises(ValueError, match=words):
        getattr(fla_cpp, name)(*CALL, **options)


@pytest.mark.parametrize("value, type_name", [(2.5, "float"), (2.0, "float"), (True, "bool"), ("2", "str")])
def test_integers_are_whole(value, type_name):
    with pytest.raises(TypeError, match=f"^lightning_attn: num_layers: expected a whole number, got {type_name}$"):
        fla_cpp.chunk_lightning_attn(*CALL, 0, value)


def test_integers_of_numpy_are_taken():
    (o, _), (other, _) = (fla_cpp.chunk_lightning_attn(*CALL, 1, layers) for layers in (4, np.int32(4)))
    assert np.array_equal(o, other)
    with pytest.raises(ValueError, match="num_layers: expected a whole number of 64 bits, got 1180591620717411303424"):
        fla_cpp.chunk_lightning_attn(*CALL, 1, 2**70)


def test_rwkv7_is_dplr_under_its_names():
    from fla_cpp.ops.rwkv7 import chunk_rwkv7, fused_recurrent_rwkv7

    random = np.random.default_rng(3)
    r, k, v, a, b = (0.3 * random.standard_normal((1, 5, 2, 8)).astype(np.float32) for _ in range(5))
    w = -random.random((1, 5, 2, 8)).astype(np.float32)
    o, state = fla_cpp.dplr_delta_rule(r, k, v, a, b, w, scale=1.0, output_final_state=True)
    for result in (
        chunk_rwkv7(r, w, k, v, a, b, output_final_state=True),
        fused_recurrent_rwkv7(r=r, w=w, k=k, v=v, a=a, b=b, scale=1.0),
    ):
        assert error(result[0], o) < 1e-6 and error(result[1], state) < 1e-6
    assert fla_cpp.explain(chunk_rwkv7, r, w, k, v, a, b).op == "dplr_delta_rule"


def test_linear_attention_is_normalized_where_that_library_does():
    o, _ = fla_cpp.chunk_linear_attn(*CALL)
    assert np.allclose(o, 1)  # all values are 1
    assert np.allclose(fla_cpp.fused_recurrent_linear_attn(*CALL)[0][0, 2], 3 * 8 / np.sqrt(8))


def test_steps_over_rings_are_those_that_write_states():
    random = np.random.default_rng(5)
    steps, slots, ring = 40, np.array([2, 0]), 8
    q, k, v = (0.3 * random.standard_normal((2, steps, 2, 8)).astype(np.float32) for _ in range(3))
    g, beta = -random.random((2, steps, 2, 8)).astype(np.float32), random.random((2, steps, 2)).astype(np.float32)
    first = random.standard_normal((2, 2, 8, 8)).astype(np.float32)
    o, last = fla_cpp.fused_recurrent_kda(q, k, v, g, beta, initial_state=first, output_final_state=True)

    state = np.zeros((3, 2, 8, 8), np.float32)
    state[slots] = first
    rings = {name: np.full((3, ring, 2, 8), np.nan, np.float32) for name in ("ring_k", "ring_u", "ring_g")}
    pool = {"state": state, "state_indices": slots, **rings}
    begin, end = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for t in range(steps):
        token = (x[:, t : t + 1] for x in (q, k, v, g, beta))
        before = state.copy()
        step = fla_cpp.replay_kda(*token, ring_begin=begin, ring_end=end, **pool)
        assert error(step, o[:, t : t + 1]) < 1e-5
        folded = end - begin + 2 > ring
        assert np.array_equal(state[1], before[1]) and (folded.all() or np.array_equal(state, before))
        begin, end = np.where(folded, end, begin), end + 1
    assert fla_cpp.fold_kda(ring_begin=begin, ring_end=end, **pool) is None
    assert error(state[slots], last) < 1e-5
    with pytest.raises(ValueError, match="kda: ring_end: expected at most 7 tokens in a ring of L=8 before T=1 more"):
        fla_cpp.replay_kda(*(x[:, :1] for x in (q, k, v, g, beta)), ring_begin=end - 8, ring_end=end, **pool)
