"""Who takes a call, and what a person can say about it."""

import asyncio
import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import cases
import fla_cpp
import numpy as np
import pytest
from fla_cpp import _fla_cpp


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    environment = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(environment)
    fla_cpp.set_policy()
    fla_cpp.reload_environment()


CALL = cases.random_call(T=40)


def selected():
    return fla_cpp.explain(fla_cpp.chunk_kda, *CALL).selected


def taken(backend):
    rows = [row for row in fla_cpp.counters() if (row.function, row.backend) == ("chunk_kda", backend)]
    return rows[0].taken


def test_explain_says_who_takes_a_call():
    explanation = fla_cpp.explain(fla_cpp.kda, *CALL)
    assert (explanation.op, explanation.function, explanation.selected) == ("kda", "chunk_kda", "cpu_simd")
    assert explanation.dispatch_enabled and explanation.error == "" and explanation.rule == ""
    row = {row.name: row for row in explanation.rows}["cpu_simd"]
    assert (row.state, row.priority, row.reason) == ("selected", 5, "")
    assert json.loads(explanation.json())["selected"] == "cpu_simd"
    assert str(explanation) == explanation.text()
    assert explanation.text().startswith("kda.chunk_kda -> cpu_simd\n")


def test_explain_takes_a_name_and_any_way_of_calling():
    q, k, v, g, beta = CALL
    assert fla_cpp.explain("fused_recurrent_kda", q, k, v, beta=beta, g=g).function == "fused_recurrent_kda"
    short = cases.random_call(T=2)
    assert fla_cpp.explain("kda", *short).function == "fused_recurrent_kda"


def test_explain_runs_and_counts_nothing():
    before = fla_cpp.counters_json()
    fla_cpp.explain("chunk_kda", *CALL)
    assert fla_cpp.counters_json() == before


def test_explain_refuses_what_a_call_would_refuse():
    q, k, v, g, beta = CALL
    with pytest.raises(ValueError, match=r"beta: expected shape \[B=1, T=40, HV=2\], got \[1, 5, 2\]"):
        fla_cpp.explain("chunk_kda", q, k, v, g, beta[:, :5])
    with pytest.raises(ValueError, match="function: expected one of kda, chunk_kda, fused_recurrent_kda, .*, got 'glaa'"):
        fla_cpp.explain("glaa", *CALL)


def test_a_policy_holds_inside_its_scope():
    assert selected() == "cpu_simd"
    with fla_cpp.policy(enable={"cpu_simd": False}) as inside:
        assert inside.enable == {"cpu_simd": False}
        assert selected() == "original"
        with fla_cpp.policy(enable={"cpu_simd": True}):
            assert selected() == "cpu_simd"
        assert selected() == "original"
    assert selected() == "cpu_simd"


def test_a_policy_goes_with_an_exception():
    with pytest.raises(KeyError):
        with fla_cpp.policy(disable_dispatch=True):
            raise KeyError
    assert selected() == "cpu_simd"


def test_a_policy_object_may_be_used_again_and_inside_itself():
    original = fla_cpp.policy(disable_dispatch=True)
    with original, original:
        assert selected() == "original"
    assert selected() == "cpu_simd"
    with original:
        assert selected() == "original"


def test_a_policy_object_may_be_shared_by_threads():
    original = fla_cpp.policy(disable_dispatch=True)
    entered, left, seen = threading.Event(), threading.Event(), []

    def other():
        with original:
            entered.set()
            left.wait()
            seen.append(selected())
        seen.append(selected())

    thread = threading.Thread(target=other)
    with original:
        thread.start()
        entered.wait()
    assert selected() == "cpu_simd"
    left.set()
    thread.join()
    assert seen == ["original", "cpu_simd"]


def test_a_policy_object_may_be_shared_by_tasks():
    original = fla_cpp.policy(disable_dispatch=True)

    async def within(entered, leave):
        with original:
            entered.set()
            await leave.wait()
            inside = selected()
        return inside, selected()

    async def crosswise():
        events = [asyncio.Event() for _ in range(4)]
        first = asyncio.create_task(within(*events[:2]))
        await events[0].wait()
        second = asyncio.create_task(within(*events[2:]))
        await events[2].wait()
        events[1].set()
        results = [await first]
        events[3].set()
        return [*results, await second, selected()]

    expected = ("original", "cpu_simd")
    assert asyncio.run(crosswise()) == [expected, expected, "cpu_simd"]


def test_policies_of_generators_may_end_in_any_order():
    def within(**settings):
        with fla_cpp.policy(**settings):
            yield

    first, second = within(enable={"cpu_simd": False}), within(disable_dispatch=False)
    next(first), next(second)
    assert selected() == "original"
    first.close()
    assert selected() == "cpu_simd"
    second.close()
    assert _fla_cpp.scope.get() is None


def test_a_call_obeys_the_policy():
    with fla_cpp.policy(disable_dispatch=True):
        before = taken("original")
        fla_cpp.chunk_kda(*CALL)
        assert taken("original") == before + 1
    before = taken("cpu_simd")
    fla_cpp.chunk_kda(*CALL)
    assert taken("cpu_simd") == before + 1


def test_a_policy_is_of_its_thread():
    seen = []
    with fla_cpp.policy(disable_dispatch=True):
        thread = threading.Thread(target=lambda: seen.append(selected()))
        thread.start()
        thread.join()
    assert seen == ["cpu_simd"]


def test_a_policy_is_of_its_task():
    turn = {}

    async def within(name, **settings):
        with fla_cpp.policy(**settings):
            first = selected()
            turn[name].set()
            await turn["last"].wait()
            return first, selected()

    async def both():
        for name in ("a", "b", "last"):
            turn[name] = asyncio.Event()
        tasks = [
            asyncio.create_task(within("a", disable_dispatch=True)),
            asyncio.create_task(within("b", enable={"cpu_simd": True})),
        ]
        await turn["a"].wait()
        await turn["b"].wait()
        assert selected() == "cpu_simd"
        turn["last"].set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(both()) == [("original", "original"), ("cpu_simd", "cpu_simd")]


def test_a_wrong_policy_is_refused_on_entry_and_leaves_nothing():
    with pytest.raises(ValueError, match="no op has a backend 'nope'") as raised:
        with fla_cpp.policy(deny=["nope"]):
            pytest.fail("entered")
    assert isinstance(raised.value, fla_cpp.ConfigError)
    assert selected() == "cpu_simd"


def test_wrong_settings_are_named():
    for settings, sentence in [
        ({"colour": 1}, "got colour"),
        ({"enable": ["cpu_simd"]}, r"enable: expected a dict {backend: True or False}, got \['cpu_simd'\]"),
        ({"on_failure": "retry"}, "on_failure: expected 'raise' or 'fallback', got 'retry'"),
        ({"breaker_threshold": "5"}, "breaker_threshold: expected a whole number, got '5'"),
    ]:
        with pytest.raises(TypeError, match=sentence):
            fla_cpp.set_policy(**settings)
        with pytest.raises(TypeError, match=sentence):
            fla_cpp.policy(**settings)


def test_set_policy_holds_for_the_process():
    fla_cpp.set_policy(deny=["kda.cpu_simd"], on_failure="fallback", breaker_threshold=7, order={"kda": ["cpu_simd"]})
    assert selected() == "original"
    now = fla_cpp.current_policy()
    assert (now.deny, now.on_failure, now.breaker_threshold) == (["kda.cpu_simd"], "fallback", 7)
    assert now.order == {"kda": ["cpu_simd"]} and now.allow is None
    fla_cpp.set_policy()
    assert selected() == "cpu_simd"


def test_a_preferred_backend_is_asked_first_and_the_others_after_it():
    names = {row.name for row in fla_cpp.explain("chunk_kda", *CALL).rows}
    with fla_cpp.policy(prefer={"kda": ["cpu_simd"]}) as inside:
        assert inside.prefer == {"kda": ["cpu_simd"]}
        rows = fla_cpp.explain("chunk_kda", *CALL).rows
        assert (rows[0].name, rows[0].state, rows[0].preferred) == ("cpu_simd", "selected", True)
        assert {row.name for row in rows[1:] if not row.preferred} == names - {"cpu_simd"}
    with pytest.raises(TypeError, match=r"prefer: expected a dict {op: \[backend, …\]}, got 'cpu_simd'"):
        fla_cpp.policy(prefer="cpu_simd")


def test_policies_compare_and_show_what_they_say():
    assert fla_cpp.Policy(disable_dispatch=True) == fla_cpp.Policy(disable_dispatch=True) != fla_cpp.Policy()
    assert repr(fla_cpp.Policy(allow=["cpu_simd"])) == "Policy(allow=['cpu_simd'])"


def test_the_environment_is_read_again_when_asked():
    os.environ["FLA_CPU_SIMD"] = "0"
    assert selected() == "cpu_simd"
    fla_cpp.reload_environment()
    assert selected() == "original"
    os.environ["FLA_CPU_SIMD"] = "maybe"
    with pytest.raises(ValueError, match="FLA_CPU_SIMD.*maybe") as raised:
        fla_cpp.reload_environment()
    assert isinstance(raised.value, fla_cpp.ConfigError)
    assert selected() == "original"
    del os.environ["FLA_CPU_SIMD"]
    fla_cpp.reload_environment()
    assert selected() == "cpu_simd"


def test_ops_lists_functions_and_backends():
    kda = {op.name: op for op in fla_cpp.ops()}["kda"]
    assert kda.functions == ["chunk_kda", "fused_recurrent_kda", "chunk_kda_backward", "replay_kda", "fold_kda",
                             "kda_summary"]  # fmt: skip
    backend = {backend.name: backend for backend in kda.backends}["cpu_simd"]
    assert (backend.priority, backend.env_var, backend.enabled, backend.available) == (5, "FLA_CPU_SIMD", True, True)
    assert backend.functions == kda.functions[:-2]  # folds and summaries are the original kernels'
    assert (backend.package, backend.reason, backend.default_enable) == ("Highway", "", True)
    assert "kda" in {op["name"] for op in json.loads(fla_cpp.registry_json())["ops"]}


def test_counters_say_who_refused_and_why():
    half = cases.random_call(T=1)
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: NumPy has no bf16 of its own")
    state = np.zeros((1, 2, 16, 16), ml_dtypes.bfloat16)
    fla_cpp.fused_recurrent_kda(*half, initial_state=state)
    (row,) = [r for r in fla_cpp.counters() if (r.function, r.backend) == ("fused_recurrent_kda", "cpu_simd")]
    assert [refusal.reason for refusal in row.refused if refusal.count > 0]
    assert (row.op, row.breaker, row.failed) == ("kda", "closed", 0)
    assert 'fla_backend_taken_total{op="kda"' in fla_cpp.counters_prometheus()


def test_a_plugin_that_does_not_exist_is_an_error():
    with pytest.raises(fla_cpp.InvalidArgument, match="expected a plugin's file, got '/nowhere/libacme.so': No such file"):
        fla_cpp.load_plugin("/nowhere/libacme.so")
    assert "/nowhere/libacme.so" not in [plugin.path for plugin in fla_cpp.plugins()]


def test_a_plugin_takes_calls(tmp_path):
    built = Path(os.environ.get("FLA_BUILD_DIR", "")) / "tests/plugins/acme.so"
    if not built.is_file():
        pytest.skip("the tests' plugin acme is not built")
    tmp_path.chmod(0o755)
    plugin = tmp_path / "acme.so"
    shutil.copy(built, plugin)
    plugin.chmod(0o755)
    # In a process of its own: what was loaded stays.
    code = f"""
import cases, fla_cpp
print(fla_cpp.load_plugin({str(plugin)!r}).state)
call = cases.random_call(K=64)
print(fla_cpp.explain("chunk_kda", *call).selected, fla_cpp.plugins()[0].state, fla_cpp.plugins()[0].backends)
fla_cpp.chunk_kda(*call)
print([row.taken for row in fla_cpp.counters() if row.backend == "acme" and row.function == "chunk_kda"])
"""
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.stdout == "found\nacme loaded ['kda.acme']\n[1]\n", done.stdout + done.stderr


def test_threads_can_be_counted():
    before = fla_cpp.num_threads()
    fla_cpp.set_num_threads(1)
    assert fla_cpp.num_threads() == 1
    fla_cpp.set_num_threads(0)
    assert fla_cpp.num_threads() == before
    with pytest.raises(ValueError, match="-1"):
        fla_cpp.set_num_threads(-1)


def test_a_prompt_shows_what_explain_ops_and_counters_hold():
    explanation = fla_cpp.explain(fla_cpp.chunk_kda, *CALL)
    assert repr(explanation) == explanation.text().rstrip("\n")
    assert repr(explanation).startswith("kda.chunk_kda -> cpu_simd\n")
    assert repr(explanation.original) == (
        "Explanation.Row(name='original', priority=2147483647, state='accepted', reason='', place='', route='', preferred=False)"
    )
    lines = repr(fla_cpp.ops()).splitlines()
    assert lines[0].split() == ["op", "backend", "priority", "toggle", "state", "functions"]
    assert ["kda", "cpu_simd", "5", "FLA_CPU_SIMD", "ready"] in [line.split()[:5] for line in lines]
    fla_cpp.set_policy(enable={"cpu_simd": False})
    assert any("cpu_simd" in line and "disabled" in line for line in repr(fla_cpp.ops()).splitlines())
    fla_cpp.set_policy()
    fla_cpp.chunk_kda(*CALL)
    lines = [line.split() for line in repr(fla_cpp.counters()).splitlines()]
    assert lines[0][:3] == ["function", "backend", "taken"]
    row = next(line for line in lines if line[:2] == ["kda.chunk_kda", "cpu_simd"])
    assert int(row[2]) == taken("cpu_simd") and row[-1] == "closed"
    assert isinstance(fla_cpp.ops(), list) and isinstance(fla_cpp.counters(), list)
    assert repr(fla_cpp.ops()[0]).startswith("OpStatus(name='common', functions=[")
    assert repr(fla_cpp.ops()[0].original).startswith("BackendStatus(name='original', ")
    assert "taken=" in repr(fla_cpp.counters()[0])


def test_a_notebook_shows_tables():
    page = fla_cpp.explain(fla_cpp.chunk_kda, *CALL)._repr_html_()
    assert page.startswith("<table><caption style='text-align:left'>kda.chunk_kda -&gt; cpu_simd</caption>")
    assert ">cpu_simd</td>" in page and ">selected</td>" in page
    assert ">FLA_CPU_SIMD</td>" in fla_cpp.ops()._repr_html_()
    assert ">kda.chunk_kda</td>" in fla_cpp.counters()._repr_html_()
    plugins = fla_cpp.plugins()  # backends for GPUs, where they were built
    assert all(plugin.name in repr(plugins) for plugin in plugins) if plugins else repr(plugins) == "[]"
    assert "<table>" in plugins._repr_html_()


def test_policies_and_explanations_are_pickled_and_copied():
    given = fla_cpp.Policy(
        disable_dispatch=False, order={"kda": ["cpu_simd"]}, deny=["gla.cpu_simd"], on_failure="fallback", breaker_threshold=3
    )
    explanation = fla_cpp.explain(fla_cpp.chunk_kda, *CALL)
    for again in (lambda thing: pickle.loads(pickle.dumps(thing)), copy.deepcopy):
        assert again(given) == given and again(fla_cpp.Policy()) == fla_cpp.Policy()
        assert again(explanation).json() == explanation.json() and again(explanation).text() == explanation.text()
        assert again(explanation.rows[0]).name == explanation.rows[0].name
