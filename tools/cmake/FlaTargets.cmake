# Settings that every target of ours shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  else()
    set(CMAKE_BUILD_TYPE Release)  # here alone: the cache is the other project's
  endif()
endif()
# The places that errors name are the same wherever the sources lie.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
# Assertions cost nothing that matters here; -O3 is what the benchmarks compare against.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(fla_warnings INTERFACE)
set(warnings -Wall -Wextra -Wnon-virtual-dtor -Wcast-qual)
if(PROJECT_IS_TOP_LEVEL)
  list(APPEND warnings -Werror)  # what a newer compiler warns of is no error in another project
endif()
if(NOT FLA_COMPILE_TOGETHER)
  list(APPEND warnings -Wshadow)  # a name of one source may hide that of another
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND warnings -Wno-subobject-linkage)  # takes sources that are included for headers
endif()
target_compile_options(fla_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Wpedantic;-Wold-style-cast>"
  # The code that nvcc makes for the host compiler has line directives and casts of its own.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=$<JOIN:${warnings},$<COMMA>>>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Its -Wrestrict takes a string literal plus a std::string for overlapping memory.
  target_compile_options(fla_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>
                                                $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-restrict>)
endif()

# gcc collects its garbage early, to be frugal: a twelfth of the time of files as large as these.
if(FLA_COMPILE_TOGETHER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()

# fla_compile_fast(TARGET [LEVEL]): for programs whose own speed does not matter; LEVEL of the optimiser, -O1 by default.
# Sanitizers make its work on them as dear as all the rest of a build.
function(fla_compile_fast TARGET)
  set(level -O1)
  if(ARGC GREATER 1)
    set(level ${ARGV1})
  endif()
  if(FLA_SANITIZE)
    target_compile_options(${TARGET} PRIVATE -O0)
  else()
    target_compile_options(${TARGET} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${level}>)
  endif()
endfunction()

# fla_compile_together(TARGET [BATCH]): compiles the sources of a target as one, or BATCH of them at a time, with sanitizers
# and in CI, where compiling takes too long otherwise. Other builds and clang-tidy compile each source alone, which must work.
function(fla_compile_together TARGET)
  set(batch 0)
  if(ARGC GREATER 1)
    set(batch ${ARGV1})
  endif()
  if(FLA_COMPILE_TOGETHER)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# fla_compile_folders_together(TARGET [FOLDERS…]): the same, the sources of each folder by themselves, but those of all folders
# that match one of FOLDERS, each a regular expression, as one: reading the headers takes most of a small folder's time.
function(fla_compile_folders_together TARGET)
  if(NOT FLA_COMPILE_TOGETHER)
    return()
  endif()
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${TARGET} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    string(REPLACE / _ group "${folder}")
    set(number 0)
    foreach(folders IN LISTS ARGN)
      math(EXPR number "${number} + 1")
      if(folder MATCHES "^(${folders})$")
        set(group together_${number})
        break()
      endif()
    endforeach()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}")
  endforeach()
endfunction()

# fla_compile_kernels_together(TARGET NAME SOURCES…): the same of some of a target's CUDA sources, which CMake 3.25 does not
# compile together itself: a file NAME.cu includes them. Reading the toolkit's headers takes half of a small file's time.
function(fla_compile_kernels_together TARGET NAME)
  if(NOT FLA_COMPILE_TOGETHER)
    return()
  endif()
  set(lines)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    string(APPEND lines "#include \"${source}\"\n")
  endforeach()
  # Where CMake's own such files are: scripts/build_graph.py knows them by it.
  set(together ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${TARGET}.dir/${NAME}.cu)
  file(CONFIGURE OUTPUT ${together} CONTENT "${lines}")
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(${together} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # newer ones do, with all others
  target_sources(${TARGET} PRIVATE ${together})
endfunction()

if(FLA_SANITIZE)
  include(FlaSanitizers)
endif()
