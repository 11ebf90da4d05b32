"""The examples do what they say, in short."""

import os
import re
import sys
from pathlib import Path

import pytest

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])
sys.path.append(str(SOURCE / "tools" / "examples"))


@pytest.fixture
def train_recall():
    pytest.importorskip("torch", reason="torch is not installed")
    import train_recall

    return train_recall


def test_numpy_call(capsys):
    import numpy_call

    numpy_call.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "o float32 (1, 100, 4, 64), state float32 (1, 4, 64, 64)"
    errors = [float(re.fullmatch(rf"{name} is off by (\S+)", line)[1]) for name, line in zip(("o", "state"), lines[1:])]
    assert max(errors) < 1e-5
    assert lines[3:5] == ["into memory of the caller: True", "kda.chunk_kda -> cpu_simd"]


def test_training_with_the_kernels_gradients_goes_as_with_autograds(train_recall):
    ours = train_recall.losses_of(train_recall.by_fla_cpp, 64)
    plain = train_recall.losses_of(train_recall.by_recurrence, 64)
    assert ours == pytest.approx(plain, rel=1e-2)
    assert min(ours[-4:]) < 0.85 * ours[0]


def test_the_picture_has_both_curves(train_recall):
    picture = train_recall.picture({"one": ([2.0, 1.0], 'stroke="red"'), "other": ([2.0, 0.5], 'stroke="blue"')})
    assert picture.count("<polyline") == 2 and "one" in picture and "other" in picture


@pytest.mark.parametrize(
    "page, blocks",
    [
        ("README.md", 1),
        ("tools/docs/pages/tutorials/decode-loop.md", 2),
        ("tools/docs/pages/tutorials/first-call.md", 1),
        ("tools/docs/pages/tutorials/training.md", 1),
        ("tools/docs/pages/how-to/packed-sequences.md", 1),
    ],
)
def test_the_first_python_blocks_of_a_page_run(page, blocks):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    text = (SOURCE / page).read_text()
    names = {name: torch.randn(1, 8, 2, 16) for name in "qkv"}
    names |= {"g": -torch.rand(1, 8, 2, 16), "beta": torch.rand(1, 8, 2), "state": torch.zeros(1, 2, 16, 16)}
    for block in text.split("```python\n")[1 : 1 + blocks]:
        exec(block.split("```")[0], names)
        assert names["o"].shape == names["v"].shape
