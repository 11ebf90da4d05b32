# Finds the template headers of TileLang, which generated kernels include: the target TileLang::templates, TileLang_VERSION.
# Looked for, in this order, in TILELANG_DIR (a variable or the environment: where pip put tilelang, or the folder tilelang
# in it), in .deps/tilelang, where scripts/requirements puts them, in CMAKE_PREFIX_PATH, and among the packages of python3.

set(inside src tilelang/src)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
cmake_path(GET root PARENT_PATH root)
find_path(TileLang_TEMPLATES tl_templates/cuda/common.h HINTS ${TILELANG_DIR} ENV TILELANG_DIR ${root}/.deps/tilelang
          PATH_SUFFIXES ${inside} NO_DEFAULT_PATH)
find_path(TileLang_TEMPLATES tl_templates/cuda/common.h PATH_SUFFIXES ${inside})
if(NOT TileLang_TEMPLATES)
  find_program(TileLang_PYTHON python3)
  mark_as_advanced(TileLang_PYTHON)
  if(TileLang_PYTHON)
    execute_process(COMMAND ${TileLang_PYTHON} -c "import sys; print(';'.join(p for p in sys.path if p))"
                    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(TileLang_TEMPLATES tl_templates/cuda/common.h HINTS ${folders} PATH_SUFFIXES ${inside} NO_DEFAULT_PATH)
  endif()
endif()
mark_as_advanced(TileLang_TEMPLATES)

# pip's description of the package says which version these headers are of.
set(TileLang_VERSION)
set(TileLang_CUTLASS)
if(TileLang_TEMPLATES)
  cmake_path(GET TileLang_TEMPLATES PARENT_PATH package)
  cmake_path(GET package PARENT_PATH packages)
  file(GLOB descriptions ${packages}/tilelang-*.dist-info)
  foreach(description IN LISTS descriptions)
    if(description MATCHES "/tilelang-([0-9.]+[0-9])[^/]*\\.dist-info$")
      set(TileLang_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(TileLang_CUTLASS ${package}/3rdparty/cutlass/include)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TileLang REQUIRED_VARS TileLang_TEMPLATES TileLang_CUTLASS VERSION_VAR TileLang_VERSION)
if(TileLang_FOUND AND NOT TARGET TileLang::templates)
  add_library(TileLang::templates INTERFACE IMPORTED)
  target_include_directories(TileLang::templates INTERFACE ${TileLang_TEMPLATES} ${TileLang_CUTLASS})
endif()
