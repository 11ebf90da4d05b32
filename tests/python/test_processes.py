"""Threads, forked workers, memory, and what importing the module does."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cases
import fla_cpp
import numpy as np
import pytest


def in_new_process(code, **environment):
    return subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True)


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_threads_that_call_at_once_get_their_own_answers():
    calls = [cases.random_call(T=30 + seed, seed=seed) for seed in range(8)]
    expected = [fla_cpp.kda(*call, output_final_state=True) for call in calls]
    start = threading.Barrier(8)

    def work(n):
        start.wait()
        for _ in range(50):
            o, state = fla_cpp.kda(*calls[n], output_final_state=True)
            np.testing.assert_array_equal(o, expected[n][0])
            np.testing.assert_array_equal(state, expected[n][1])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_the_gil_is_released_while_kernels_run():
    call = cases.random_call(T=512, H=4, K=64, V=64)
    inside, seen = False, threading.Event()

    def watch():
        while not seen.is_set():
            if inside:
                seen.set()
            os.sched_yield()  # gives the GIL up

    thread = threading.Thread(target=watch)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is made to give the GIL up: the call has to do it by itself
    try:
        thread.start()
        for _ in range(1000):
            inside = True
            fla_cpp.kda(*call)
            inside = False
            if seen.is_set():
                break
        assert seen.is_set()
    finally:
        seen.set()
        sys.setswitchinterval(switch)
        thread.join()


def test_a_forked_worker_works():
    call = cases.random_call(T=64, H=4)
    expected, _ = fla_cpp.chunk_kda(*call)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                same = np.array_equal(fla_cpp.chunk_kda(*call)[0], expected)
                os._exit(0 if same and fla_cpp.explain("chunk_kda", *call).selected == "cpu_simd" else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_worker_that_is_forked_while_others_call_works():
    call = cases.random_call(T=64, H=4)
    expected, _ = fla_cpp.chunk_kda(*call)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            fla_cpp.chunk_kda(*call)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if np.array_equal(fla_cpp.chunk_kda(*call)[0], expected) else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def leaked_kib(make_call, rounds):
    """How much the process grew over `rounds` calls, after as many to warm up."""
    fla_cpp.set_num_threads(1)  # so small a call waits more for threads than it works
    try:
        for _ in range(rounds):
            make_call()
        gc.collect()
        before = resident_kib()
        for _ in range(rounds):
            make_call()
        gc.collect()
        return resident_kib() - before
    finally:
        fla_cpp.set_num_threads(0)


def test_calls_leak_nothing():
    call = cases.random_call(T=1, H=1)
    states = {"initial_state": np.zeros((1, 1, 16, 16), np.float32), "output_final_state": True}
    # A leak of one small object a call would be more than 1 MiB.
    assert leaked_kib(lambda: fla_cpp.fused_recurrent_kda(*call, **states), 20_000) < 512


def test_errors_leak_nothing():
    call = cases.random_call(T=1, H=1)

    def wrong():
        with pytest.raises(ValueError):
            fla_cpp.kda(*call[:4], call[4][:, :0])
        with pytest.raises(TypeError):
            fla_cpp.kda(*call[:4], 3)

    assert leaked_kib(wrong, 10_000) < 512


def test_references_are_neither_lost_nor_kept():
    call = cases.random_call()
    out = np.zeros((1, 20, 2, 16), np.float32)
    arrays = [*call, out]
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(100):
        fla_cpp.kda(*call, out=out)
        fla_cpp.explain("kda", *call)
        with pytest.raises(ValueError):
            fla_cpp.kda(*call[:4], call[4][:, :5])
    gc.collect()
    assert [sys.getrefcount(array) for array in arrays] == before


def test_importing_imports_no_array_library():
    code = "import sys, fla_cpp; print(sorted({'numpy', 'torch', 'cupy', 'jax'} & set(sys.modules)))"
    assert in_new_process(code).stdout == "[]\n"


def test_a_free_threaded_python_is_refused():
    done = in_new_process("import sys; sys.abiflags = 't'; import fla_cpp")
    assert done.returncode == 1
    assert "ImportError: fla_cpp: expected a Python with the GIL, got a free-threaded build" in done.stderr


def test_a_wrong_variable_is_an_error_of_the_first_call_not_of_the_import():
    code = """
import fla_cpp, numpy
print("imported")
x = numpy.zeros((1, 1, 1, 16), "f")
fla_cpp.kda(x, x, x, x, x[..., 0])
"""
    done = in_new_process(code, FLA_NUM_THREADS="many")
    assert done.stdout == "imported\n"
    assert "ConfigError: FLA_NUM_THREADS" in done.stderr and "many" in done.stderr


def test_the_version_is_the_librarys():
    done = subprocess.run([sys.executable, "-m", "fla_cpp", "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == fla_cpp.__version__
