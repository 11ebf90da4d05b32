"""A script that was written for flash-linear-attention runs with only its import changed."""

from pathlib import Path
from types import SimpleNamespace

import cases
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from test_torch import assert_agrees, golden_call

SCRIPT = Path(__file__).parent / "scripts/kda_for_flash_linear_attention.py"
THEIRS, OURS = "from fla.ops.kda import chunk_kda", "from fla_cpp import chunk_kda"


@pytest.fixture(scope="module")
def script():
    text = SCRIPT.read_text()
    assert text.count(THEIRS) == 1
    namespace = {}
    exec(compile(text.replace(THEIRS, OURS), SCRIPT, "exec"), namespace)
    return SimpleNamespace(**namespace)


by_case = pytest.mark.parametrize("path", cases.GOLDEN, ids=lambda path: path.stem)


def read(path):
    case = cases.Case(path)
    return case, golden_call(case) | case.options, (case.expected["o"], case.expected["final_state"])


@by_case
def test_prefill_agrees(script, path):
    case, call, expected = read(path)
    assert_agrees(script.prefill(call), expected, case.tolerance)


@by_case
def test_prefill_by_position_is_the_same(script, path):
    _, call, _ = read(path)
    for result, other in zip(script.prefill_by_position(call), script.prefill(call)):
        assert torch.equal(result, other)


@pytest.mark.parametrize("path", [p for p in cases.GOLDEN if "varlen" not in p.stem], ids=lambda path: path.stem)
def test_generating_token_by_token_agrees(script, path):
    case, call, expected = read(path)
    assert_agrees(script.generate(call, call["q"].shape[1] // 2), expected, case.tolerance)
