"""A wheel of scripts/wheel, where nothing that it was built with is found: calls, the command, find_package; and the same
in a root folder that holds glibc and Python and nothing else."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest

BUILD, SOURCE = Path(os.environ["FLA_BUILD_DIR"]), Path(os.environ["FLA_SOURCE_DIR"])
TOOLS = SOURCE / ".deps/wheel/bin"
CALLS = Path(__file__).parent / "scripts/calls_without_numpy.py"
CONSUMER = SOURCE / "tests/install/consumer"
CONSUMER_SAYS = "f32[1, 3, 2, 8] on cpu, state f32[1, 2, 8, 8] on cpu\n"
EXPLAIN = ["explain", "kda", "--shape", "B=1,T=64,H=2,K=64,V=64", "--dtype", "f32", "--device", "cpu", "--json"]

GLIBC = re.compile(r"(lib(c|m|dl|pthread|rt|util|resolv)|ld-linux-[\w-]+)\.so\.\d+")
CPP_RUNTIME = {"libstdc++.so.6", "libgcc_s.so.1"}
CLEAN = {"PATH": os.environ["PATH"]}


def output_of(*command, **options):
    options = {"env": CLEAN, "stdin": subprocess.DEVNULL} | options
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def needed_by(path):
    """(library, file) of what the loader finds for it."""
    return re.findall(r"(\S+) => (/\S+)", output_of("ldd", path))


def works(*command):
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def outside():
    """What the library needs of the build's packages: (name, file)."""
    needed = needed_by(BUILD / "lib/libfla.so")
    return [(name, file) for name, file in needed if not GLIBC.fullmatch(name) and name not in CPP_RUNTIME]


# ---- the file


@pytest.fixture(scope="module")
def wheel(scratch):
    folder = scratch / "wheel"
    command = [SOURCE / "scripts/wheel", "--build", BUILD, "--into", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.iterdir()
    assert str(made) in done.stdout
    return made


@pytest.fixture(scope="module")
def unpacked(wheel, scratch):
    folder = scratch / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def elf_files(unpacked):
    """By file, what `readelf -d` says."""
    files = [path for path in unpacked.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    return {path.relative_to(unpacked).as_posix(): output_of("readelf", "-d", path) for path in files}


def test_its_tag_is_auditwheels(wheel):
    platform = wheel.stem.rpartition("-")[2]
    assert re.fullmatch(rf"manylinux_2_\d+_{os.uname().machine}", platform)
    assert f'platform tag: "{platform}"' in " ".join(output_of(TOOLS / "auditwheel", "show", wheel).split())


def test_its_files_need_glibc_and_each_other(elf_files, outside):
    inside = {path.rpartition("/")[2] for path in elf_files}
    for name, _ in outside:
        assert any(other.startswith(name.partition(".")[0] + "-") for other in inside), f"{name} is not inside"
    for path, dynamic in elf_files.items():
        for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
            assert GLIBC.fullmatch(name) or name in CPP_RUNTIME or name in inside, f"{path} needs {name}"
        for folders in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic):
            assert all(re.match(r"\$ORIGIN(/|$)", folder) for folder in folders.split(":")), f"{path} searches {folders}"
            assert "runtime" not in folders, f"{path} would take the wheel's C++ runtime before the system's"


def test_the_library_is_there_once(elf_files):
    assert [path for path in elf_files if re.search(r"/libfla\.so", path)] == ["fla_cpp/lib/libfla.so.0"]


def test_it_has_the_licences_of_what_is_inside(unpacked):
    (folder,) = unpacked.glob("*.dist-info/licenses")
    assert (folder / "LICENSE").read_text() == (SOURCE / "LICENSE").read_text()
    words = {"spdlog": "Gabi Melman", "fmt": "Victor Zverovich", "highway": "Apache", "toml++": "Mark Gillard", "pybind11": "Wenzel Jakob",
             "nlohmann-json": "Niels Lohmann", "gcc": "GCC RUNTIME LIBRARY EXCEPTION"}
    for name, word in words.items():
        assert word in (folder / f"third_party/{name}.txt").read_text()
    if list(unpacked.glob("fla_cpp/lib/fla/plugins/libfla_cuda_*.so")):
        assert "NVIDIA" in (folder / "third_party/cuda.txt").read_text()


# ---- a fresh environment


@pytest.fixture(scope="module")
def environment(wheel, scratch):
    """A virtual environment with the wheel and no other package; and where it has the wheel's."""
    folder = scratch / "environment"
    output_of(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = [TOOLS / "python3", "-m", "pip", "--python", folder / "bin/python3", "--disable-pip-version-check"]
    output_of(*pip, "install", "--no-index", "--no-deps", "--no-compile", wheel)
    (package,) = folder.glob("lib/python*/site-packages/fla_cpp")
    return folder, package


@pytest.fixture(scope="module")
def apart(outside):
    """Begins a command that finds neither this tree, nor the build, nor the libraries and CMake packages that it was made
    with; nothing where bubblewrap does not work. The tests then still look at what was loaded."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    packages = re.findall(r"^(?:spdlog|fmt|hwy|tomlplusplus|nlohmann_json|CLI11|pybind11)_DIR:PATH=(/.*)", cache, re.M)
    command = ["bwrap", "--dev-bind", "/", "/"]
    for folder in [SOURCE, BUILD, *packages]:
        command += ["--tmpfs", str(Path(folder).resolve())]
    for _, file in outside:
        command += ["--ro-bind", "/dev/null", str(Path(file).resolve())]
    return command if works(*command, "true") else []


def is_from(package, path):
    return Path(path).is_relative_to(package.resolve()) or GLIBC.fullmatch(Path(path).name) or is_cpp_runtime(path)


def is_cpp_runtime(path):
    return any(Path(path).name.startswith(name) for name in CPP_RUNTIME)


def test_calls_need_no_library_from_outside(environment, apart, tmp_path):
    folder, package = environment
    shutil.copy(CALLS, tmp_path)
    said = json.loads(output_of(*apart, folder / "bin/python3", tmp_path / CALLS.name, cwd=tmp_path))
    assert said["package"] == str(package / "__init__.py")
    assert set(said["taken"]) == {"kda", "chunk_kda", "fused_recurrent_kda"}
    assert [path for path in said["libraries"] if not is_from(package, path)] == []
    assert said["libraries"]
    # What the system has goes before what the wheel has.
    assert not any(Path(path).is_relative_to(package / "runtime") for path in said["libraries"])
    built = {path.name for path in (BUILD / "lib/fla/plugins").glob("*.so")}
    assert {Path(path).name: state for path, state in said["plugins"].items()} == dict.fromkeys(built, "loaded")


def test_the_command_runs(environment, apart, tmp_path):
    folder, package = environment
    if not (package / "bin/fla").exists():
        pytest.skip("built without the command")
    assert json.loads(output_of(*apart, folder / "bin/fla", *EXPLAIN, cwd=tmp_path))["op"] == "kda"
    assert [file for _, file in needed_by(package / "bin/fla") if not is_from(package, file)] == []


def test_find_package_needs_no_other_package(environment, apart, tmp_path):
    folder, package = environment
    shutil.copytree(CONSUMER, tmp_path / "consumer")
    directory = output_of(*apart, folder / "bin/python3", "-m", "fla_cpp", "--cmake-dir", cwd=tmp_path).strip()
    options = [f"-Dfla_DIR={directory}", f"-DCMAKE_CXX_COMPILER={os.environ.get('CXX', 'c++')}"]
    output_of(*apart, "cmake", "-S", "consumer", "-B", "build", "-G", "Ninja", *options, cwd=tmp_path)
    output_of(*apart, "cmake", "--build", "build", cwd=tmp_path)
    assert output_of(*apart, tmp_path / "build/consumer") == CONSUMER_SAYS
    assert [file for _, file in needed_by(tmp_path / "build/consumer") if not is_from(package, file)] == []


def test_linkers_find_the_library_by_its_short_name(environment, apart, tmp_path):
    folder, package = environment
    where = {what: output_of(folder / "bin/python3", "-m", "fla_cpp", f"--{what}").strip() for what in ("include-dir", "library")}
    libraries = Path(where["library"]).parent
    source = "#include <fla/c_api.h>\nint main(void) { char* json = 0; return fla_functions(&json) != FLA_OK; }\n"
    (tmp_path / "program.c").write_text(source)
    words = ["program.c", "-o", "program", f"-I{where['include-dir']}", f"-L{libraries}", "-lfla", f"-Wl,-rpath,{libraries}"]
    output_of(*apart, shutil.which("cc") or "gcc", *words, cwd=tmp_path)
    output_of(*apart, tmp_path / "program")


# ---- glibc and Python alone


@pytest.fixture(scope="module")
def root(environment, scratch):
    """A root folder that has glibc, this Python with ctypes, and the wheel; and what begins a command line of Python in it."""
    _, package = environment
    folder = scratch / "root"

    def put(path):
        place = folder / str(path).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)

    python = Path(os.path.realpath(sys._base_executable))
    programs = [python, Path(importlib.util.find_spec("_ctypes").origin)]  # the second may be in the first
    parts = [file for part in programs if part.exists() for file in re.findall(r"(/\S+) \(0x", output_of("ldd", part))]
    (libc,) = {file for file in parts if file.endswith("/libc.so.6")}
    glibc = [path for path in Path(libc).parent.iterdir() if GLIBC.fullmatch(path.name)]
    assert not any(map(is_cpp_runtime, parts)), "this Python itself needs a C++ runtime"
    for path in {str(python), *parts, *map(str, glibc)}:
        put(path)
    library = Path(sysconfig.get_path("stdlib"))
    left_out = ["test", "site-packages", "dist-packages", "ensurepip", "idlelib", "tkinter", "config-*", "*.pyc", "*.a"]
    shutil.copytree(library, folder / str(library).lstrip("/"), ignore=shutil.ignore_patterns(*left_out))
    shutil.copytree(package, folder / "site/fla_cpp", copy_function=os.link)
    shutil.copy(CALLS, folder / "site")

    proc = folder / "proc"  # loaders look there for where a program lies
    proc.mkdir()
    ways = [["bwrap", "--bind", folder, "/", "--proc", "/proc", "--dev", "/dev"],
            ["unshare", "--map-root-user", "--pid", "--fork", f"--mount-proc={proc}", "chroot", folder]]
    for way in ways:
        command = [*map(str, way), str(python)]
        if works(*command, "-c", "import ctypes"):
            return folder, command
    pytest.skip("neither bwrap nor unshare works here")


def in_root(root, *words):
    _, python = root
    return output_of(*python, *words, env=CLEAN | {"PYTHONPATH": "/site", "PYTHONDONTWRITEBYTECODE": "1"})


def test_calls_work_with_glibc_and_python_alone(root):
    said = json.loads(in_root(root, "/site/calls_without_numpy.py"))
    assert said["package"] == "/site/fla_cpp/__init__.py"
    assert set(said["taken"]) == {"kda", "chunk_kda", "fused_recurrent_kda"}
    assert {Path(path).name for path in said["libraries"] if "/runtime/" in path} == CPP_RUNTIME


def test_the_command_works_with_glibc_and_python_alone(root, environment):
    if not (environment[1] / "bin/fla").exists():
        pytest.skip("built without the command")
    said = json.loads(in_root(root, "-c", "from fla_cpp.__main__ import fla; fla()", *EXPLAIN))
    assert said["op"] == "kda" and said["selected"]


def test_without_its_runtime_the_import_says_what_is_missing(root):
    folder, python = root
    shutil.copytree(folder / "site/fla_cpp", folder / "other/fla_cpp", copy_function=os.link,
                    ignore=shutil.ignore_patterns("runtime"))
    done = subprocess.run([*python, "-c", "import fla_cpp"], env=CLEAN | {"PYTHONPATH": "/other"}, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(r"ImportError: lib(stdc\+\+|gcc_s)\.so\.\d: cannot open shared object file", done.stderr)
