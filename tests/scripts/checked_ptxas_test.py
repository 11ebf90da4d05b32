"""tools/cmake/checked_ptxas.sh, around compilers that are made up."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLA_SOURCE_DIR", Path(__file__).parents[2]))
SCRIPT = SOURCE / "tools/cmake/checked_ptxas.sh"

PROPERTIES = """\
ptxas info    : Compiling entry function 'kernel' for 'sm_90a'
ptxas info    : Function properties for kernel
    0 bytes stack frame, {} bytes spill stores, {} bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers
"""
SERIALISED = ("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized "
              "due to the presence of Extern calls in the function 'kernel'\n")


class CheckedPtxas(unittest.TestCase):
    def compile(self, output="", status=0):
        """Runs a compiler that writes its object and says `output`; the process, and whether the object is there."""
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder, "said")
            said.write_text(output)
            made = Path(folder, "kernel.o")
            compiler = f'cat "{said}" >&2; echo object > "{made}"; exit {status}'
            run = subprocess.run(["sh", SCRIPT, "sh", "-c", compiler, "-x", "cu", "-o", made], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            return run, made.exists()

    def test_kernels_as_they_should_be_are_left_alone(self):
        run, made = self.compile(PROPERTIES.format(0, 0))
        self.assertEqual((run.returncode, run.stderr, made), (0, "", True))

    def test_spills_are_errors(self):
        for stores, loads in [(8, 8), (0, 16), (120, 0)]:
            run, made = self.compile(PROPERTIES.format(stores, loads))
            self.assertEqual((run.returncode, made), (1, False))
            self.assertIn("error: kernels spill registers or lose performance:", run.stderr)
            self.assertIn("Function properties for kernel", run.stderr)
            self.assertIn(f"{stores} bytes spill stores, {loads} bytes spill loads", run.stderr)

    def test_a_performance_loss_is_an_error(self):
        run, made = self.compile(PROPERTIES.format(0, 0) + SERIALISED)
        self.assertEqual((run.returncode, made), (1, False))
        self.assertIn(SERIALISED, run.stderr)

    def test_other_words_and_failures_are_passed_on(self):
        run, made = self.compile("kernel.cu(3): warning #177-D: unused\n" + PROPERTIES.format(0, 0), status=3)
        self.assertEqual((run.returncode, made), (3, True))
        self.assertEqual(run.stderr, "kernel.cu(3): warning #177-D: unused\n")


if __name__ == "__main__":
    unittest.main()
