# The Python module in the build, as FLA_PYTHON asks for it: sets FLA_HAS_PYTHON, and then has found Python3 with its
# headers and pybind11, and FLA_HAS_PYTEST (what its tests need is there, too). The interpreter is that of .deps/python
# where scripts/requirements made one, or else the first in PATH.

set(FLA_HAS_PYTHON OFF CACHE INTERNAL "Whether the Python module is in the build")
set(FLA_HAS_PYTEST OFF CACHE INTERNAL "Whether the Python module's tests are in the build")
set(no_python)  # why not

string(TOUPPER "${FLA_PYTHON}" FLA_PYTHON)
if(NOT FLA_PYTHON MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLA_PYTHON: expected AUTO, ON or OFF, got ${FLA_PYTHON}")
endif()

if(NOT DEFINED Python3_EXECUTABLE)
  find_program(FLA_PYTHON3 python3)
  mark_as_advanced(FLA_PYTHON3)
  # Looked for at every configuration: the environment may have been made since the last one.
  if(EXISTS ${PROJECT_SOURCE_DIR}/.deps/python/bin/python3)
    set(Python3_EXECUTABLE ${PROJECT_SOURCE_DIR}/.deps/python/bin/python3)
  elseif(FLA_PYTHON3)
    set(Python3_EXECUTABLE ${FLA_PYTHON3})
  endif()
endif()

if(FLA_PYTHON STREQUAL "OFF")
  set(no_python "FLA_PYTHON=OFF")
elseif(FLA_SANITIZE)
  set(no_python "an interpreter without them cannot load FLA_SANITIZE=${FLA_SANITIZE}")
else()
  find_package(Python3 3.9 COMPONENTS Interpreter Development.Module)
  if(NOT Python3_Interpreter_FOUND)
    set(no_python "no Python 3.9 or newer was found")
  elseif(NOT Python3_Development.Module_FOUND)
    set(no_python "the headers of ${Python3_EXECUTABLE} were not found (python3-dev)")
  else()
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print('t' in sys.abiflags)"
      OUTPUT_VARIABLE free_threaded OUTPUT_STRIP_TRAILING_WHITESPACE)
    # pip's package knows where it lies.
    execute_process(COMMAND ${Python3_EXECUTABLE} -m pybind11 --cmakedir
      OUTPUT_VARIABLE pybind11_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(PYBIND11_NOPYTHON ON)  # Python3 is the one
    find_package(pybind11 2.10 QUIET CONFIG HINTS ${pybind11_folder})
    if(free_threaded STREQUAL "True")
      set(no_python "expected a Python with the GIL, got the free-threaded build ${Python3_EXECUTABLE}")
    elseif(NOT pybind11_FOUND)
      set(no_python "no pybind11 2.10 was found (pybind11-dev)")
    endif()
  endif()
endif()

if(no_python)
  if(FLA_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "FLA_PYTHON=ON: ${no_python}")
  endif()
  list(APPEND FLA_LEFT_OUT "Python module and its tests: ${no_python}")
  return()
endif()
set(FLA_HAS_PYTHON ON CACHE INTERNAL "Whether the Python module is in the build")

if(FLA_TESTS)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import numpy, pytest" RESULT_VARIABLE failed ERROR_VARIABLE words)
  if(failed)
    string(REGEX MATCH "No module named '[a-z]+'" words "${words}")
    list(APPEND FLA_LEFT_OUT "tests of the Python module: ${Python3_EXECUTABLE}: ${words}")
  else()
    set(FLA_HAS_PYTEST ON CACHE INTERNAL "Whether the Python module's tests are in the build")
  endif()
endif()
