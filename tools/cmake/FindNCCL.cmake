# Finds NCCL: the target NCCL::NCCL, NCCL_VERSION. Looked for, in this order, in NCCL_DIR (a variable or the environment: a
# prefix of NCCL's, or where pip put nvidia-nccl-cu13, torch's own among them), in .deps/nccl, where scripts/requirements puts
# it, in the CUDA toolkit and CMAKE_PREFIX_PATH, and among the packages of python3. Header and library are of one folder.

set(inside . nvidia/nccl)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
cmake_path(GET root PARENT_PATH root)
list(TRANSFORM inside APPEND /include OUTPUT_VARIABLE headers)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_DIR} ENV NCCL_DIR ${root}/.deps/nccl PATH_SUFFIXES ${headers} NO_DEFAULT_PATH)
find_package(CUDAToolkit QUIET)  # whose headers NCCL's include
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT NCCL_INCLUDE_DIR)
  find_program(NCCL_PYTHON python3)
  mark_as_advanced(NCCL_PYTHON)
  if(NCCL_PYTHON)
    execute_process(COMMAND ${NCCL_PYTHON} -c "import sys; print(';'.join(p for p in sys.path if p))"
                    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${folders} PATH_SUFFIXES ${headers} NO_DEFAULT_PATH)
  endif()
endif()

set(NCCL_VERSION)
if(NCCL_INCLUDE_DIR)
  # pip's packages have the library by its soname alone.
  cmake_path(GET NCCL_INCLUDE_DIR PARENT_PATH prefix)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${prefix} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  foreach(part MAJOR MINOR PATCH)
    if(lines MATCHES "NCCL_${part} +([0-9]+)")
      list(APPEND NCCL_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN NCCL_VERSION . NCCL_VERSION)
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL SHARED IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
