"""A rank that is killed: every other rank gets an error that names it, and nobody hangs."""

import os
import re
import subprocess
import sys
import unittest

RANKS = 4
MPIEXEC = os.environ["MPIEXEC"]


class KilledRank(unittest.TestCase):
    def expect_named(self, victim, calls):
        version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout
        if not re.search(r"\((Open MPI|OpenRTE)\) 4\.", version):  # others have other words for not killing the survivors
            print("not run: needs mpirun of Open MPI 4, which leaves other ranks alive")
            sys.stdout.flush()
            os._exit(0)
        done = subprocess.run([MPIEXEC, "--enable-recovery", "-n", str(RANKS), os.environ["KILLED_RANK"], str(victim), str(calls)],
                              capture_output=True, text=True, timeout=120)
        told = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
        expected = [f"rank {rank} was told: fla::distributed on rank {rank}: rank {victim} did not come to the exchange within "
                    "2.000000 s" for rank in range(RANKS) if rank != victim]
        self.assertEqual(told, expected, done.stderr)

    def test_before_the_first_exchange(self):
        self.expect_named(0, 0)

    def test_between_exchanges(self):
        self.expect_named(2, 3)


if __name__ == "__main__":
    unittest.main()
