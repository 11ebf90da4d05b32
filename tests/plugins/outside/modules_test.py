"""A build whose backends are modules: libfla needs nothing of theirs, and they are found beside it."""

import json
import re
import shutil
import sys
import unittest
from pathlib import Path

from outside import BUILD, SOURCE, OutsideTest, output_of, prefixes, run


class Modules(OutsideTest):
    def configure_like_the_build(self, *options):
        """A folder whose build differs from this one by the options alone. It finds what this one found, and takes its objects."""
        folder = self.folder / "modules"
        for checked in BUILD.glob("CMakeFiles/*/CMake*Compiler.cmake"):
            shutil.copytree(checked.parent, folder / checked.parent.relative_to(BUILD), dirs_exist_ok=True)
        cache = (BUILD / "CMakeCache.txt").read_text()
        where = "CMAKE_CACHEFILE_DIR:INTERNAL="
        (folder / "CMakeCache.txt").write_text(cache.replace(f"{where}{BUILD}", f"{where}{folder}"))
        launcher = f"{sys.executable};{Path(__file__).with_name('take_object.py')};{BUILD};{folder}"
        output_of("cmake", "-S", SOURCE, "-B", folder, "-DFLA_MODULES=ON", "-DFLA_TESTS=OFF", "-DFLA_TOOLS=OFF", "-DFLA_PYTHON=OFF",
                  f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}", *options)
        return folder

    def state_of_cpu_simd(self, variables):
        plugins = json.loads(output_of(BUILD / "bin/fla", "plugins", "--json", variables=variables))["plugins"]
        (plugin,) = [plugin for plugin in plugins if plugin["name"] == "cpu_simd"]
        return plugin["path"], plugin["state"]

    def test_cpu_simd_works_as_a_module_and_libfla_does_not_need_its_libraries(self):
        modules = self.configure_like_the_build("-DFLA_MODULE_BACKENDS=cpu_simd")
        output_of("cmake", "--build", modules, "-j2")
        module = modules / "lib/fla/plugins/libfla_cpu_simd.so"

        def needed(library):
            return re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", library))

        self.assertFalse([name for name in needed(modules / "lib/libfla.so") if "hwy" in name])
        self.assertTrue([name for name in needed(module) if "hwy" in name])
        self.assertTrue([name for name in needed(BUILD / "lib/libfla.so") if "hwy" in name], "linked in by default")
        exported = re.findall(r" GLOBAL DEFAULT +\d+ ([^@\s]+)", output_of("readelf", "-W", "--dyn-syms", module))
        self.assertEqual([name for name in exported if not name.startswith("_Z")], ["fla_plugin"])

        fla = BUILD / "bin/fla"
        around = {"LD_PRELOAD": str(modules / "lib/libfla.so")}
        (kda,) = [op for op in json.loads(output_of(fla, "ops", "--json", variables=around))["ops"] if op["name"] == "kda"]
        (backend,) = [backend for backend in kda["backends"] if backend["name"] == "cpu_simd"]
        self.assertEqual((backend["available"], backend["enabled"]), (True, True))
        self.assertEqual(kda["backends"][-1]["name"], "original")
        call = ["explain", "kda", "--shape", "B=1,T=512,H=4,K=64,V=64", "--json"]
        self.assertEqual(json.loads(output_of(fla, *call, variables=around))["selected"], "cpu_simd")
        disabled = json.loads(output_of(fla, *call, variables=around | {"FLA_CPU_SIMD": "0"}))
        self.assertEqual(disabled["selected"], "original")
        golden = sorted((SOURCE / "tests/golden").glob("*.safetensors"))
        checked = run(fla, "check", "--json", *golden, variables=around)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn("cpu_simd", {json.loads(line)["backend"] for line in checked.stdout.splitlines()})
        self.assertEqual(self.state_of_cpu_simd(around), (str(module), "loaded"))

        prefix = self.folder / "prefix"
        output_of("cmake", "--install", modules, "--prefix", prefix)
        (library,) = prefix.rglob("libfla.so")
        moved, state = self.state_of_cpu_simd({"LD_PRELOAD": str(library)})
        self.assertEqual(state, "loaded")
        self.assertTrue(moved.startswith(str(prefix.resolve())))

    def test_backend_that_does_not_exist_cannot_be_a_module(self):
        done = run("cmake", "-S", SOURCE, "-B", self.folder, "-G", "Ninja", "-DFLA_TESTS=OFF", "-DFLA_TOOLS=OFF",
                   "-DFLA_PYTHON=OFF", "-DFLA_CUDA=OFF", "-DFLA_MODULE_BACKENDS=nobody",
                   f"-DCMAKE_PREFIX_PATH={prefixes()}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FLA_MODULE_BACKENDS: expected backends of backends/CMakeLists.txt, got nobody",
                      " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
