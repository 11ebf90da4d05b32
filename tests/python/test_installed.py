"""What pip would put into site-packages: the C++ installation below the package's folder, Python files beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD, SOURCE = Path(os.environ["FLA_BUILD_DIR"]), Path(os.environ["FLA_SOURCE_DIR"])
CONSUMER = SOURCE / "tests/install/consumer"


def output_of(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder like site-packages."""
    site = tmp_path_factory.mktemp("site-packages")
    for component in ("Unspecified", "python"):
        output_of("cmake", "--install", BUILD, "--prefix", site / "fla_cpp", "--component", component)
    return site


@pytest.fixture
def python(site, tmp_path):
    """Runs the interpreter with that package and no other."""

    def run(*words, **options):
        others = [p for p in os.environ["PYTHONPATH"].split(":") if p and Path(p) != BUILD / "python"]
        environment = os.environ | {"PYTHONPATH": ":".join([str(site), *others])}
        return output_of(sys.executable, *words, env=environment, cwd=tmp_path, **options)

    return run


def test_the_module_finds_its_library_beside_it(site, python):
    loaded = "[line.split()[-1] for line in open('/proc/self/maps') if 'libfla.so' in line][0]"
    module, library = python("-c", f"import fla_cpp; print(fla_cpp.__file__, {loaded})").split()
    assert Path(module) == site / "fla_cpp/__init__.py"
    assert Path(library).is_relative_to(site / "fla_cpp")


def test_the_module_works(python):
    code = "import fla_cpp, numpy; x = numpy.ones((1, 1, 1, 16), 'f'); print(fla_cpp.kda(x, x, x, x, x[..., 0])[0])"
    assert python("-c", code).count("4.") == 16


def test_the_package_has_stubs_and_says_so(site):
    assert (site / "fla_cpp/py.typed").is_file()
    assert "def chunk_kda(" in (site / "fla_cpp/__init__.pyi").read_text()
    paths = (site / "fla_cpp/ops/gated_delta_rule.pyi").read_text()
    assert "from fla_cpp import chunk_gated_delta_rule as chunk_gated_delta_rule\n" in paths


def test_every_python_file_is_installed(site):
    sources = {path.name for path in (SOURCE / "fla/python/fla_cpp").glob("*.py")}
    assert {path.name for path in (site / "fla_cpp").glob("*.py")} == sources


def test_there_are_no_links_of_which_pip_would_make_copies(site):
    assert [path for path in site.rglob("*") if path.is_symlink()] == []


def test_a_cpp_program_finds_the_package_where_the_module_says(python, tmp_path):
    folder = python("-m", "fla_cpp", "--cmake-dir").strip()
    compiler = os.environ.get("CXX", "c++")
    build = tmp_path / "build"
    options = [f"-Dfla_DIR={folder}", f"-DCMAKE_CXX_COMPILER={compiler}"]
    output_of("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", *options)
    output_of("cmake", "--build", build)
    assert output_of(build / "consumer") == "f32[1, 3, 2, 8] on cpu, state f32[1, 2, 8, 8] on cpu\n"


def test_the_folders_are_there(site, python):
    include = Path(python("-m", "fla_cpp", "--include-dir").strip())
    assert (include / "fla/fla.h").is_file() and include.is_relative_to(site)
    assert Path(python("-m", "fla_cpp", "--library").strip()).resolve().is_file()


def test_the_command_runs(site, python):
    if not (site / "fla_cpp/bin/fla").exists():
        pytest.skip("built without the command")
    # What pip's script for the command does.
    words = ["explain", "kda", "--shape", "B=1,T=64,H=2,K=64,V=64", "--json"]
    assert json.loads(python("-c", "from fla_cpp.__main__ import fla; fla()", *words))["op"] == "kda"


def test_a_build_folder_says_that_it_has_none_of_it():
    done = subprocess.run([sys.executable, "-m", "fla_cpp", "--cmake-dir"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("expected a package that pip installed, got a build folder's\n")
