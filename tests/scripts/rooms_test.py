"""scripts/rooms: which includes run upwards, in this tree and in small ones that are wrong on purpose."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLA_SOURCE_DIR", Path(__file__).parents[2]))
SCRIPT = SOURCE / "scripts/rooms"

RIGHT = {
    "fla/dispatch/README.md": "<!-- scripts/rooms --write -->\n<!-- end -->\n",
    "fla/dispatch/lock_order.h": '#include "fla/core/fork.h"\n',
    "fla/dispatch/wiring.cpp": '#include "fla/dispatch/catalog/ops.h"\n',
    "fla/dispatch/rules/condition.h": '#include "fla/core/arguments.h"\n',
    "fla/dispatch/catalog/ops.h": '#include "fla/dispatch/rules/condition.h"\n',
    "fla/dispatch/catalog/ops.cpp": '#include "fla/dispatch/catalog/ops.h"\n#include "fla/dispatch/lock_order.h"\n',
    "fla/core/arguments.h": "#include <vector>\n",
    "fla/core/fork.h": "",
    "fla/ops/wave/wave.h": '#include "fla/dispatch/catalog/ops.h"\n',
    "backends/fast/wave.cpp": '#include "backends/fast/kernels.h"\n#include "fla/ops/wave/wave.h"\n',
    "backends/fast/kernels.h": "",
}


def run(*words):
    done = subprocess.run([sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Rooms(unittest.TestCase):
    def said_of(self, changes, *options):
        """What is said of the right tree with these files added or replaced."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {**RIGHT, **changes}.items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text, encoding="utf-8")
            return run("--tree", folder, *options)

    def assert_refused(self, changes, reason):
        status, said = self.said_of(changes, "--write")
        self.assertEqual((status, said), (1, reason + "\n"))

    def test_this_tree_has_no_include_that_runs_upwards(self):
        status, said = run()
        self.assertEqual(status, 0, said)

    def test_a_tree_that_is_right_is_drawn(self):
        status, said = self.said_of({}, "--write")
        self.assertEqual(status, 0, said)
        rows = [row.split(" | ") for row in said.splitlines()[2:]]
        floors = {row[1]: (row[0], row[-1]) for row in rows}
        self.assertEqual(floors["`catalog`"], ("| 2", "rules |"))
        self.assertEqual(floors["`wiring.cpp`"], ("| 3", "catalog |"))

    def test_an_include_of_a_higher_room_is_named(self):
        self.assert_refused(
            {"fla/dispatch/rules/condition.h": '#include "fla/dispatch/choice/plan.h"\n', "fla/dispatch/choice/plan.h": ""},
            "fla/dispatch/rules/condition.h includes fla/dispatch/choice/plan.h: choice stands above rules")

    def test_the_lock_order_is_below_all_rooms(self):
        self.assert_refused(
            {"fla/dispatch/lock_order.h": '#include "fla/dispatch/rules/condition.h"\n'},
            "fla/dispatch/lock_order.h includes fla/dispatch/rules/condition.h: rules stands above lock_order.h")

    def test_units_of_one_room_that_need_each_other_are_named(self):
        self.assert_refused(
            {"fla/dispatch/rules/facts.h": '#include "fla/dispatch/rules/condition.h"\n',
             "fla/dispatch/rules/condition.cpp": '#include "fla/dispatch/rules/facts.h"\n'},
            "a circle: fla/dispatch/rules/condition.cpp includes fla/dispatch/rules/facts.h; "
            "fla/dispatch/rules/facts.h includes fla/dispatch/rules/condition.h")

    def test_a_room_of_sixteen_files_is_one_too_many(self):
        files = {f"fla/dispatch/failure/f{i}.h": "" for i in range(15)}
        self.assertEqual(self.said_of(files, "--write")[0], 0)
        self.assert_refused({**files, "fla/dispatch/failure/more.h": ""},
                            "fla/dispatch/failure: 16 files, expected at most 15")

    def test_a_room_without_a_place_in_the_order_is_named(self):
        self.assert_refused({"fla/dispatch/misc/tools.h": ""}, "fla/dispatch/misc: scripts/rooms knows no such room")

    def test_the_parts_of_fla_include_downwards(self):
        self.assert_refused({"fla/core/fork.h": '#include "fla/dispatch/lock_order.h"\n'},
                            "fla/core/fork.h includes fla/dispatch/lock_order.h: fla/dispatch stands above fla/core")

    def test_fla_includes_no_backend_and_no_backend_another(self):
        self.assert_refused({"fla/ops/wave/wave.h": '#include "backends/fast/kernels.h"\n'},
                            "fla/ops/wave/wave.h includes backends/fast/kernels.h: fla/ includes nothing outside of fla/")
        self.assert_refused(
            {"backends/slow/wave.cpp": '#include "backends/fast/kernels.h"\n'},
            "backends/slow/wave.cpp includes backends/fast/kernels.h: a backend includes from fla/ and from its own folder")

    def test_a_drawing_that_is_not_true_is_refused(self):
        status, said = self.said_of({})
        self.assertEqual((status, said), (1, "fla/dispatch/README.md: the drawing is not what the includes say; "
                                             "scripts/rooms --write draws it\n"))


if __name__ == "__main__":
    unittest.main()
