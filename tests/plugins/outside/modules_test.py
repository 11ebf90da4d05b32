"""A build whose backends are modules: libfla needs nothing of theirs, and they are found beside it."""

import json
import re
import unittest

from outside import BUILD, SOURCE, OutsideTest, configure, output_of, prefixes, run

MODULES = BUILD / "tests/plugins/outside/modules"


class Modules(OutsideTest):
    def test_cpu_simd_works_as_a_module_and_libfla_does_not_need_its_libraries(self):
        # Built as fast as it goes, because it is for this test alone; the command is that of the build, around the other library.
        configure(SOURCE, MODULES, "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DFLA_COMPILE_TOGETHER=ON",
                  "-DFLA_TESTS=OFF", "-DFLA_TOOLS=OFF", "-DFLA_PYTHON=OFF", "-DFLA_MODULE_BACKENDS=cpu_simd", "-DFLA_CUDA=OFF")
        output_of("cmake", "--build", MODULES, "-j2")
        module = MODULES / "lib/fla/plugins/libfla_cpu_simd.so"

        def needed(library):
            return re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", library))

        self.assertFalse([name for name in needed(MODULES / "lib/libfla.so") if "hwy" in name])
        self.assertTrue([name for name in needed(module) if "hwy" in name])
        self.assertTrue([name for name in needed(BUILD / "lib/libfla.so") if "hwy" in name], "linked in by default")
        exported = re.findall(r" GLOBAL DEFAULT +\d+ ([^@\s]+)", output_of("readelf", "-W", "--dyn-syms", module))
        self.assertEqual([name for name in exported if not name.startswith("_Z")], ["fla_plugin"])

        fla = BUILD / "bin/fla"
        around = {"LD_PRELOAD": str(MODULES / "lib/libfla.so")}
        (kda,) = [op for op in json.loads(output_of(fla, "ops", "--json", variables=around))["ops"] if op["name"] == "kda"]
        backend, original = kda["backends"]
        self.assertEqual((backend["name"], backend["available"], backend["enabled"]), ("cpu_simd", True, True))
        self.assertEqual(original["name"], "original")
        call = ["explain", "kda", "--shape", "B=1,T=512,H=4,K=64,V=64", "--json"]
        self.assertEqual(json.loads(output_of(fla, *call, variables=around))["selected"], "cpu_simd")
        disabled = json.loads(output_of(fla, *call, variables=around | {"FLA_CPU_SIMD": "0"}))
        self.assertEqual(disabled["selected"], "original")
        golden = sorted((SOURCE / "tests/golden").glob("*.safetensors"))
        checked = run(fla, "check", "--json", *golden, variables=around)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn("cpu_simd", {json.loads(line)["backend"] for line in checked.stdout.splitlines()})
        (plugin,) = json.loads(output_of(fla, "plugins", "--json", variables=around))["plugins"]
        self.assertEqual((plugin["path"], plugin["name"], plugin["state"]), (str(module), "cpu_simd", "loaded"))

        prefix = self.folder / "prefix"
        output_of("cmake", "--install", MODULES, "--prefix", prefix)
        (library,) = prefix.rglob("libfla.so")
        moved = json.loads(output_of(fla, "plugins", "--json", variables={"LD_PRELOAD": str(library)}))["plugins"]
        self.assertEqual([(plugin["name"], plugin["state"]) for plugin in moved], [("cpu_simd", "loaded")])
        self.assertTrue(moved[0]["path"].startswith(str(prefix.resolve())))

    def test_backend_that_does_not_exist_cannot_be_a_module(self):
        done = run("cmake", "-S", SOURCE, "-B", self.folder, "-G", "Ninja", "-DFLA_TESTS=OFF", "-DFLA_TOOLS=OFF",
                   "-DFLA_PYTHON=OFF", "-DFLA_CUDA=OFF", "-DFLA_MODULE_BACKENDS=nobody",
                   f"-DCMAKE_PREFIX_PATH={prefixes()}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FLA_MODULE_BACKENDS: expected backends of backends/CMakeLists.txt, got nobody",
                      " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
