"""The examples do what they say, in short."""

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
sys.path.append(str(Path(os.environ["FLA_SOURCE_DIR"]) / "tools" / "examples"))
import train_recall


def test_training_with_the_kernels_gradients_goes_as_with_autograds():
    ours = train_recall.losses_of(train_recall.by_fla_cpp, 64)
    plain = train_recall.losses_of(train_recall.by_recurrence, 64)
    assert ours == pytest.approx(plain, rel=1e-2)
    assert min(ours[-4:]) < 0.85 * ours[0]


def test_the_picture_has_both_curves():
    picture = train_recall.picture({"one": ([2.0, 1.0], 'stroke="red"'), "other": ([2.0, 0.5], 'stroke="blue"')})
    assert picture.count("<polyline") == 2 and "one" in picture and "other" in picture
