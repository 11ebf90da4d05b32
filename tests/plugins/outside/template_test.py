"""The template as a vendor uses it: a new project from scripts/new_backend, in another folder, against the installed
fla."""

import json
import unittest

from outside import BUILD, NEW_BACKEND, OutsideTest, configure, output_of, run

PREFIX = BUILD / "tests/install/prefix"
FLA = PREFIX / "bin/fla"


class Template(OutsideTest):
    def make_plugin(self, *options, op="kda"):
        """A new project acme_fast that has been configured; its folder."""
        output_of(NEW_BACKEND, "acme_fast", "--op", op, "--plugin", "--into", self.folder)
        project = self.folder / "acme_fast"
        configure(project, project / "build", *options, prefix=[PREFIX])
        return project

    def explained(self, plugins, dtype, prefer="kda=acme_fast"):
        text = output_of(FLA, "explain", "kda", "--shape", "B=1,T=64,H=2,K=64,V=64", "--dtype", dtype, "--json",
                         variables={"FLA_PLUGIN_PATH": str(plugins), "FLA_BACKEND_PREFER": prefer})
        return json.loads(text)

    def test_new_plugin_takes_calls_refuses_others_and_passes_its_tests_and_conformance(self):
        project = self.make_plugin()
        output_of("cmake", "--build", project / "build", "-j2")
        tests = output_of("ctest", "--test-dir", project / "build", "--output-on-failure")
        self.assertRegex(tests, r"100% tests passed.* out of 2\d")

        plugin = project / "build/libacme_fast.so"
        taken = self.explained(plugin.parent, "f32")
        self.assertEqual(taken["selected"], "acme_fast")
        self.assertNotEqual(self.explained(plugin.parent, "f32", prefer="")["selected"], "acme_fast",
                            "it is slow, so it is asked after fla's own")
        refused = self.explained(plugin, "bf16")
        row = next(row for row in refused["backends"] if row["name"] == "acme_fast")
        self.assertEqual((row["state"], row["reason"]), ("refused", "requires f32 tensors, got bf16"))
        self.assertRegex(row["place"], r"^kda\.cpp:\d+$")

        every = json.loads(output_of(FLA, "plugins", "--json", variables={"FLA_PLUGIN_PATH": str(plugin)}))["plugins"]
        (listed,) = (each for each in every if each["path"] == str(plugin.resolve()))
        self.assertEqual((listed["name"], listed["state"], listed["ops"], listed["backends"]),
                         ("acme_fast", "loaded", ["kda"], ["kda.acme_fast"]))
        self.assertIn("kda.acme_fast: passed 23 checks\n", output_of(FLA, "conformance", "--plugin", plugin))

        # Installed with fla it is found by itself. The prefix is shared: it goes there by another name for a while.
        output_of("cmake", "--install", project / "build", "--prefix", self.folder / "stage")
        (installed,) = (self.folder / "stage").rglob("*.so")
        self.assertEqual(installed.relative_to(self.folder / "stage").as_posix().split("/", 1)[1],
                         "fla/plugins/libacme_fast.so")

    def test_new_plugin_of_another_op_passes_conformance(self):
        project = self.make_plugin("-DBUILD_TESTING=OFF", op="gated_delta_rule")
        output_of("cmake", "--build", project / "build")
        checked = output_of(FLA, "conformance", "--plugin", project / "build/libacme_fast.so")
        self.assertIn("gated_delta_rule.acme_fast: passed 23 checks\n", checked)

    def test_planted_error_fails_conformance_by_name(self):
        project = self.make_plugin("-DBUILD_TESTING=OFF")
        kernel = project / "kda.cpp"
        right = "S[i * V + j] += k * u[j] + b * w[j]"
        self.assertIn(right, kernel.read_text())
        kernel.write_text(kernel.read_text().replace(right, "S[i * V + j] += 1.001f * k * u[j]"))
        output_of("cmake", "--build", project / "build")
        # All 16 are run on the template as it is.
        checks = ["conformance", "--plugin", project / "build/libacme_fast.so", "--check", "golden", "random", "same_bits_twice"]
        done = run(FLA, *checks)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"kda\.acme_fast random: \d+ calls, \d+ refused, 10 failures\n")
        self.assertRegex(done.stdout, r"o is off by [0-9.e-]+, allowed 2e-05")
        self.assertRegex(done.stdout, r"kda\.acme_fast: FAILED 2 of 3 checks\n")
        reports = run(FLA, *checks, "--json").stdout
        failed = [report["check"] for report in map(json.loads, reports.splitlines()) if not report["ok"]]
        self.assertCountEqual(failed, ["golden", "random"])

    def test_conformance_refuses_what_it_cannot_check(self):
        nothing = self.folder / "nothing.so"
        done = run(FLA, "conformance", "--plugin", nothing)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"fla: path: expected a plugin's file, got '{nothing}': No such file or directory\n", done.stderr)
        done = run(FLA, "conformance", "--op", "mix")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^fla: op: expected one of common, kda, gated_delta_rule, .*, got 'mix'\n$")
        done = run(FLA, "conformance", "--backend", "nobody")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr,
                         "fla: --backend: there is no backend 'nobody' of an op with a conformance suite\n")


if __name__ == "__main__":
    unittest.main()
