#!/usr/bin/env python3
"""What a call from Python costs beside the same call from C++, whether calls leak, and what importing costs.

    PYTHONPATH=build/python tools/bench/python_module.py [--calls N] [--leaks N] [--imports N]

Calls are the smallest there are (T = 1, H = 1, K = V = 16, one thread). Python and C++ take turns within the run; the
times are the least of their rounds."""

import argparse
import gc
import os
import platform
import subprocess
import sys
import time

import fla_cpp
from fla_cpp import _fla_cpp, _signatures

FUNCTIONS = {function["name"]: function for function in _fla_cpp.functions()}


def arrays_of(library):
    import numpy as np

    random = np.random.default_rng(0)
    q, k, v, g = (random.standard_normal((1, 1, 1, 16)).astype(np.float32) for _ in range(4))
    call = [q, k, v, -abs(g), np.full((1, 1, 1), 0.5, np.float32)]
    state = np.zeros((1, 1, 16, 16), np.float32)
    if library == "torch":
        import torch

        return [torch.from_numpy(x) for x in call], torch.from_numpy(state)
    return call, state


def installed(library):
    try:
        __import__(library)
    except ImportError:
        print(f"{library} is not installed: left out")
        return False
    return True


def cost(library, name, options, count, rounds=15):
    """Microseconds of a call: from Python and from C++."""
    call, state = arrays_of(library)
    options = {key: state if value == "state" else value for key, value in options.items()}
    function = getattr(fla_cpp, name)
    values = _signatures.make_values(FUNCTIONS[name])(*call, **options)
    from_python, from_cpp = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            function(*call, **options)
        from_python.append((time.perf_counter() - begin) / count)
        from_cpp.append(_fla_cpp.repeat(name, values, count) / count)
    return 1e6 * min(from_python), 1e6 * min(from_cpp)


def show_calls(count):
    print("\nmicroseconds a call                                    Python     C++   overhead")
    variants = {
        "": {},
        "state in and out": {"initial_state": "state", "output_final_state": True},
        "state in place": {"initial_state": "state", "final_state": "state"},
    }
    for library in filter(installed, ("torch", "numpy")):
        for name in ("fused_recurrent_kda", "kda"):
            for words, options in variants.items():
                python, cpp = cost(library, name, options, count)
                label = f"{library} {name}{', ' if words else ''}{words}"
                print(f"  {label:50s} {python:8.2f} {cpp:7.2f} {python - cpp:10.2f}")


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def show_leaks(count):
    print(f"\nresident memory in KiB, over {count} calls of fused_recurrent_kda with a state in and out")
    for library in filter(installed, ("torch", "numpy")):
        call, state = arrays_of(library)
        sizes = []
        for step in range(11):
            if step > 0:
                for _ in range(count // 10):
                    fla_cpp.fused_recurrent_kda(*call, initial_state=state, output_final_state=True)
            gc.collect()
            sizes.append(resident_kib())
        print(f"  {library:8s} {' '.join(map(str, sizes))}: {sizes[-1] - sizes[1]:+d} after the first tenth")


def show_imports(count):
    def seconds(code):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begin

    bare, with_module = [], []
    for _ in range(count):
        bare.append(seconds(""))
        with_module.append(seconds("import fla_cpp"))
    least = [1e3 * min(times) for times in (bare, with_module)]
    middle = [1e3 * sorted(times)[count // 2] for times in (bare, with_module)]
    print(f"\nmilliseconds of {count} starts          Python    with fla_cpp   more")
    for name, (a, b) in (("least", least), ("median", middle)):
        print(f"  {name:30s} {a:9.1f} {b:15.1f} {b - a:6.1f}")
    print(f"  CUDA: {fla_cpp.why_no_cuda_device() or 'there is a device'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000, metavar="N", help="so many calls a round; 0: none")
    parser.add_argument("--leaks", type=int, default=0, metavar="N", help="so many calls; 0: none")
    parser.add_argument("--imports", type=int, default=20, metavar="N", help="so many processes; 0: none")
    options = parser.parse_args()
    fla_cpp.set_num_threads(1)
    print(f"fla {fla_cpp.__version__}, Python {platform.python_version()}, {platform.machine()}")
    if options.imports > 0:
        show_imports(options.imports)
    if options.calls > 0:
        show_calls(options.calls)
    if options.leaks > 0:
        show_leaks(options.leaks)


if __name__ == "__main__":
    main()
