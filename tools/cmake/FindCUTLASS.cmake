# Finds CUTLASS, which is headers alone: the target CUTLASS::CUTLASS, CUTLASS_VERSION. Looked for, in this order, in
# CUTLASS_DIR (a variable or the environment: a clone of CUTLASS, its include folder, or where pip put nvidia-cutlass), in
# .deps/cutlass, where scripts/requirements puts it, in CMAKE_PREFIX_PATH, and among the packages of python3.

set(inside include cutlass_library/source/include source/include)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
cmake_path(GET root PARENT_PATH root)
find_path(CUTLASS_INCLUDE_DIR cutlass/cutlass.h HINTS ${CUTLASS_DIR} ENV CUTLASS_DIR ${root}/.deps/cutlass
          PATH_SUFFIXES ${inside} NO_DEFAULT_PATH)
find_path(CUTLASS_INCLUDE_DIR cutlass/cutlass.h PATH_SUFFIXES ${inside})
if(NOT CUTLASS_INCLUDE_DIR)
  find_program(CUTLASS_PYTHON python3)
  mark_as_advanced(CUTLASS_PYTHON)
  if(CUTLASS_PYTHON)
    execute_process(COMMAND ${CUTLASS_PYTHON} -c "import sys; print(';'.join(p for p in sys.path if p))"
                    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(CUTLASS_INCLUDE_DIR cutlass/cutlass.h HINTS ${folders} PATH_SUFFIXES ${inside} NO_DEFAULT_PATH)
  endif()
endif()
mark_as_advanced(CUTLASS_INCLUDE_DIR)

set(CUTLASS_VERSION)
if(CUTLASS_INCLUDE_DIR)
  file(STRINGS ${CUTLASS_INCLUDE_DIR}/cutlass/version.h lines REGEX "^#define CUTLASS_(MAJOR|MINOR|PATCH) +[0-9]+")
  foreach(part MAJOR MINOR PATCH)
    if(lines MATCHES "CUTLASS_${part} +([0-9]+)")
      list(APPEND CUTLASS_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN CUTLASS_VERSION . CUTLASS_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUTLASS REQUIRED_VARS CUTLASS_INCLUDE_DIR VERSION_VAR CUTLASS_VERSION)
if(CUTLASS_FOUND AND NOT TARGET CUTLASS::CUTLASS)
  add_library(CUTLASS::CUTLASS INTERFACE IMPORTED)
  target_include_directories(CUTLASS::CUTLASS INTERFACE ${CUTLASS_INCLUDE_DIR})
endif()
