"""Calls while an interpreter ends: they work or raise, and never bring the process down."""

import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(__file__)

# Daemon threads that are inside a call, and come back from it when there is no interpreter any more.
DAEMONS = """
import threading
call = cases.random_call(T={tokens}, H=2, K=64, V=64)
outs = [call[2].copy() for _ in range(3)]
{prepare}
inside = threading.Barrier(4)

def work(out):
    {use}
    inside.wait()
    while True:
        {use}

for out in outs:
    threading.Thread(target=work, args=[out], daemon=True).start()
inside.wait()
"""

# What is freed last: by then sys.modules is empty, modules' names are None, and importing is impossible.
LAST = """
import builtins, os, sys

class Last:
    def __init__(self, name, call):
        self.name, self.call, self.kda, self.write = name, call, fla_cpp.kda, os.write
        self.expected = fla_cpp.kda(*call)[0].tobytes()

    def __del__(self):
        right = self.kda(*self.call)[0].tobytes() == self.expected
        try:
            self.kda(*self.call[:4], 3)
        except TypeError as error:
            self.write(1, f"{self.name}: {right}, {error}\\n".encode())

call = cases.random_call(T=8)
"""


def daemons(tokens, use, prepare=""):
    return DAEMONS.format(tokens=tokens, use=use, prepare=prepare)


def ends(code, times=1):
    """What `code` writes before its interpreter ends without an accident."""
    start = f"import sys; sys.path.insert(0, {TESTS!r}); import cases, fla_cpp\n"
    running = [
        subprocess.Popen([sys.executable, "-c", start + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(times)
    ]
    for process in running:
        written, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, "")
    return written


@pytest.mark.parametrize("tokens", [1, 500])
def test_daemon_threads_may_be_inside_a_call(tokens):
    ends(daemons(tokens, "fla_cpp.kda(*call)"), times=3)


@pytest.mark.parametrize("use", ["fla_cpp.counters()", "fla_cpp.ops()", "fla_cpp.explain('kda', *call)"])
def test_daemon_threads_may_be_inside_a_question(use):
    ends(daemons(1, use), times=2)


def test_daemon_threads_may_be_inside_a_call_of_torch():
    pytest.importorskip("torch", reason="torch is not installed")
    # Nothing is freed in the threads: torch gives the GIL up for that, and does not come back as it should.
    convert = "import torch; call, outs = ([torch.from_numpy(x) for x in arrays] for arrays in (call, outs))"
    ends(daemons(100, "fla_cpp.kda(*call, out=out)", convert))


def test_calls_at_exit_work():
    code = """
import atexit
call = cases.random_call()
expected = fla_cpp.kda(*call)[0]
atexit.register(lambda: print((fla_cpp.kda(*call)[0] == expected).all()))
"""
    assert ends(code) == "True\n"


@pytest.mark.parametrize("owner", ["sys", "builtins", "fla_cpp", "cases", "sys.modules[__name__]"])
def test_calls_work_when_the_modules_are_gone(owner):
    written = ends(LAST + f"{owner}.last = Last({owner!r}, call)")
    sentence = "kda: beta: expected an array that speaks DLPack (torch, NumPy, CuPy, JAX, …), got int"
    assert written == f"{owner}: True, {sentence}\n"


def test_calls_of_torch_end_without_an_accident_when_the_modules_are_gone():
    pytest.importorskip("torch", reason="torch is not installed")
    code = """
class Last:
    def __init__(self, call):
        self.kda, self.call = fla_cpp.kda, call

    def __del__(self, Exception=Exception):
        try:
            self.kda(*self.call)
        except Exception:
            pass

import builtins, sys, torch
call = [torch.from_numpy(x) for x in cases.random_call(T=8)]
fla_cpp.kda(*call)
for owner in (sys, builtins, fla_cpp, torch, torch.autograd.forward_ad):
    owner.last = Last(call)
"""
    ends(code)
