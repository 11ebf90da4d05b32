# CUDA in the build, as FLA_CUDA asks for it: sets FLA_HAS_CUDA, FLA_HAS_FLASH_KDA (what flash_kda needs is there, too) and
# then has the target fla_cuda, for what calls the CUDA runtime. That is linked statically and opens the driver itself when it is first used, so that nothing of ours needs a
# driver in order to be loaded.

set(FLA_HAS_CUDA OFF CACHE INTERNAL "Whether CUDA is in the build")
set(FLA_HAS_FLASH_KDA OFF CACHE INTERNAL "Whether the backend flash_kda is in the build")
set(no_cuda)  # why not

string(TOUPPER "${FLA_CUDA}" FLA_CUDA)
if(NOT FLA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLA_CUDA: expected AUTO, ON or OFF, got ${FLA_CUDA}")
endif()

if(FLA_CUDA STREQUAL "OFF")
  set(no_cuda "FLA_CUDA=OFF")
else()
  find_program(FLA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
  mark_as_advanced(FLA_NVCC)
  if(CMAKE_CUDA_COMPILER)
    set(nvcc ${CMAKE_CUDA_COMPILER})
  elseif(DEFINED ENV{CUDACXX})
    set(nvcc $ENV{CUDACXX})
  else()
    set(nvcc ${FLA_NVCC})
  endif()
  if(NOT nvcc)
    set(no_cuda "no nvcc was found in PATH, CUDA_HOME or /usr/local/cuda")
  elseif(FLA_SANITIZE)
    set(no_cuda "nvcc does not know FLA_SANITIZE=${FLA_SANITIZE}")
  endif()
endif()

# Kernels for compute capability 8.x and 9.0, and intermediate code that newer devices' drivers compile.
if(NOT no_cuda AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(DEFINED ENV{CUDAARCHS})
    set(architectures $ENV{CUDAARCHS})
  else()
    set(architectures 80-real 90a-real 80-virtual)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "Architectures that CUDA kernels are compiled for")
endif()

# One compiler for all host code: objects of two may not go together.
if(NOT no_cuda AND NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "The host compiler of the CUDA compiler")
endif()

# enable_language() ends the configuration where a compiler does not work; so somebody else tries it first.
if(NOT no_cuda)
  set(probed "${nvcc}, ${CMAKE_CXX_COMPILER}, ${CMAKE_CUDA_HOST_COMPILER}, ${CMAKE_CUDA_ARCHITECTURES}")
  if(NOT FLA_CUDA_WORKS OR NOT FLA_CUDA_PROBED STREQUAL probed)
    message(STATUS "Trying ${nvcc} for ${CMAKE_CUDA_ARCHITECTURES}")
    set(folder ${CMAKE_BINARY_DIR}/CMakeFiles/cuda_probe)
    file(REMOVE_RECURSE ${folder})
    set(options)
    foreach(variable CMAKE_MAKE_PROGRAM CMAKE_CXX_COMPILER CMAKE_CUDA_HOST_COMPILER)
      if(${variable})
        list(APPEND options -D${variable}=${${variable}})
      endif()
    endforeach()
    execute_process(
      COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/cuda_probe -B ${folder} -G ${CMAKE_GENERATOR} ${options}
              -DCMAKE_CUDA_COMPILER=${nvcc} "-DCMAKE_CUDA_ARCHITECTURES=${CMAKE_CUDA_ARCHITECTURES}"
      OUTPUT_FILE ${folder}.log ERROR_FILE ${folder}.log RESULT_VARIABLE failed)
    if(NOT failed)
      execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}
                      OUTPUT_FILE ${folder}.log ERROR_FILE ${folder}.log RESULT_VARIABLE failed)
    endif()
    set(works ON)
    if(failed)
      set(works OFF)
    endif()
    set(FLA_CUDA_WORKS ${works} CACHE INTERNAL "")
    set(FLA_CUDA_PROBED "${probed}" CACHE INTERNAL "")
  endif()
  if(NOT FLA_CUDA_WORKS)
    set(no_cuda "${nvcc} does not compile a probe (see ${CMAKE_BINARY_DIR}/CMakeFiles/cuda_probe.log)")
  endif()
endif()

if(no_cuda)
  if(FLA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FLA_CUDA=ON: ${no_cuda}")
  endif()
  list(APPEND FLA_LEFT_OUT "CUDA kernels and tests of label gpu: ${no_cuda}")
  return()
endif()
set(FLA_HAS_CUDA ON CACHE INTERNAL "Whether CUDA is in the build")

set(CMAKE_CUDA_COMPILER ${nvcc} CACHE FILEPATH "The CUDA compiler")
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)

find_package(CUDAToolkit 12.4 REQUIRED)
add_library(fla_cuda INTERFACE)
target_link_libraries(fla_cuda INTERFACE CUDA::cudart_static)
# A process may hold several copies of the runtime, a program's own and those of plugins: none may take another's place.
target_link_options(fla_cuda INTERFACE LINKER:--exclude-libs,libcudart_static.a)

# flash_kda is written for sm_90a on CUTLASS, whatever else CUDA_ARCHITECTURES asks for.
find_package(CUTLASS 4.2 QUIET)
execute_process(COMMAND ${nvcc} --list-gpu-code OUTPUT_VARIABLE codes ERROR_QUIET)
if(NOT CUTLASS_FOUND)
  list(APPEND FLA_LEFT_OUT "backend flash_kda: no CUTLASS 4.2 in CUTLASS_DIR, .deps/cutlass, CMAKE_PREFIX_PATH or python3's packages")
elseif(NOT codes MATCHES "sm_90\n")
  list(APPEND FLA_LEFT_OUT "backend flash_kda: ${nvcc} does not compile for sm_90a")
else()
  set(FLA_HAS_FLASH_KDA ON CACHE INTERNAL "Whether the backend flash_kda is in the build")
endif()
