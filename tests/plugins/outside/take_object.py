"""take_object.py BUILD HERE COMMAND…: a compiler launcher of the build in the folder HERE. Where the build in the folder BUILD
compiled the same object by the same command, it takes that object; otherwise it runs the command."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path


def compilation(folder, output):
    """The command that makes the object in a build, as words that are the same in every folder; None where none does."""
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if "-o" in words and words[words.index("-o") + 1] == output:
            # CMake defines the name of the library that an object is for; no source of ours reads it.
            return [word.replace(str(folder), "") for word in words if not re.fullmatch(r"-D\w+_EXPORTS", word)]
    return None


def main():
    build, here = map(Path, sys.argv[1:3])
    command = sys.argv[3:]
    output = command[command.index("-o") + 1] if "-o" in command else ""
    made = compilation(build, output)
    if made and made == compilation(here, output) and (build / output).is_file():
        shutil.copyfile(build / output, here / output)
    else:
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
