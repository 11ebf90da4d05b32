"""tools/examples: they build against the installed fla, and say what they should."""

import json
import re
import shutil
import unittest

from outside import BUILD, SOURCE, OutsideTest, configure, output_of, run

PREFIX = BUILD / "tests/install/prefix"
EXAMPLES = BUILD / "tests/plugins/outside/examples"


def says(name):
    return output_of(EXAMPLES / name).splitlines()


class Examples(OutsideTest):
    def test_build(self):
        configure(SOURCE / "tools/examples", EXAMPLES, "-DCMAKE_CXX_FLAGS=-Werror", "-DCMAKE_C_FLAGS=-Werror", prefix=[PREFIX])
        output_of("cmake", "--build", EXAMPLES, "-j2")

    def test_first_call(self):
        lines = says("first_call")
        self.assertEqual(lines[0], "o f32[1, 100, 4, 64] on cpu, state f32[1, 4, 64, 64] on cpu")
        self.assertEqual(lines[1], "kda.chunk_kda -> cpu_simd")
        self.assertRegex(lines[-1], r"^ +original +- +accepted")

    def test_packed_sequences(self):
        self.assertEqual(says("packed_sequences"), ["sequence 0: 5 tokens, its state holds numbers",
                                                    "sequence 1: 0 tokens, its state is zeros",
                                                    "sequence 2: 7 tokens, its state holds numbers",
                                                    "the last one alone: the same bits",
                                                    "o of the padding: zeros"])

    def test_decode_loop(self):
        lines = says("decode_loop")
        slots = [re.fullmatch(r"step (\d): (\d) requests in slots([ \d]+), o f32\[1, \2, 2, 32\] on cpu", line)[3] for line in lines[:6]]
        self.assertEqual(slots, [" 2", " 2 0", " 2 0", " 2 0 3", " 2 3", " 2 3"])
        states = [re.fullmatch(r"slot (\d): (\d) tokens, off by (\S+)", line).groups() for line in lines[6:]]
        self.assertEqual([state[:2] for state in states], [("2", "6"), ("0", "3"), ("3", "3")])
        self.assertLess(max(float(state[2]) for state in states), 1e-5)

    def test_plan_and_graph(self):
        plan, graph = says("plan_and_graph")
        self.assertEqual(plan, "plan: cpu_simd, off by 0 from calls that choose")
        captured = re.fullmatch(r"graph: \w+ captured, replayed 3 times, off by (\S+)", graph)
        if captured:
            self.assertLess(float(captured[1]), 1e-2)
        else:
            self.assertRegex(graph, r"^graph: not captured, (no CUDA |this build has no CUDA |this example was built without )")

    def test_engine(self):
        lines = output_of(EXAMPLES / "engine", "10000", variables={"FLA_NUM_THREADS": "1"}).splitlines()
        requests, tokens, grown = re.fullmatch(r"(\d+) requests, (\d+) tokens: all the same; memory grew by (-?\d+) KiB", lines[-1]).groups()
        self.assertEqual(requests, "10000")
        self.assertGreater(int(tokens), 50000)
        self.assertLess(int(grown), 4096)
        served = [re.fullmatch(r"([a-z ]+): \d+ tokens a second, \d+ bytes of states a token, ([\d.]+) tokens a step, (\d+) % .*", line).groups()
                  for line in lines[:-1]]
        self.assertEqual([how for how, *_ in served], ["one by one", "together", "with cache and drafts"])
        self.assertGreater(float(served[2][1]), 1.02)  # some drafts were right
        self.assertGreater(int(served[2][2]), 30)

    def test_call_from_c(self):
        lines = says("call_from_c")
        self.assertRegex(lines[0], r"^fla \d+\.\d+\.\d+$")
        self.assertRegex(lines[1], r"^out: 1 x 100 x 4 x 64, ends with -?\d\.\d{4}$")
        self.assertRegex(lines[2], r"^final_state: 1 x 4 x 64 x 64, ends with -?\d\.\d{4}$")
        self.assertIn("kda.chunk_kda -> original  (dispatch is disabled)", lines)
        self.assertEqual(lines[-1], "code 1: kda: k: expected shape [B=1, T=100, H=4, K=64], got [1, 100, 4]")

    def test_call_from_rust(self):
        if not (rustc := shutil.which("rustc")):
            print("not run: there is no rustc")
            self.skipTest("there is no rustc")
        library = next(PREFIX.glob("lib*/libfla.so")).parent
        output_of(rustc, "--edition", "2021", "-D", "warnings", SOURCE / "tools/examples/call_from_rust.rs", "-o", self.folder / "program",
                  "-L", library, "-C", f"link-arg=-Wl,-rpath,{library}")
        lines, in_c = output_of(self.folder / "program").splitlines(), says("call_from_c")
        self.assertEqual(lines, [*in_c[:3], in_c[-1]])

    def test_plugin(self):
        fla, plugins = PREFIX / "bin/fla", {"FLA_PLUGIN_PATH": str(EXAMPLES)}
        call = ["explain", "linear_attn", "--shape", "B=2,T=64,H=2,K=32,V=16", "--json"]

        def row(*options):
            explained = json.loads(output_of(fla, *call, *options, variables=plugins))
            (own,) = (row for row in explained["backends"] if row["name"] == "outsider")
            return own["state"], own["reason"]

        self.assertEqual(row(), ("selected", ""))
        self.assertEqual(row("--dtype", "bf16"), ("refused", "requires f32 tensors, got bf16"))
        self.assertEqual(row("--with", "initial_state"), ("selected", ""))
        checks = ["--check", "random", "same_bits_twice", "golden", "--allow-not-shown"]
        done = run(fla, "conformance", "--plugin", EXAMPLES / "liboutsider.so", *checks)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"linear_attn\.outsider random: [1-9]\d* calls, \d+ refused, 0 failures")


if __name__ == "__main__":
    unittest.main()
