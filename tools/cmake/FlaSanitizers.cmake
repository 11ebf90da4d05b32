# Every target with the sanitizers of FLA_SANITIZE, and the settings that the programs of the tests run with.

add_compile_options(-fsanitize=${FLA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
add_link_options(-fsanitize=${FLA_SANITIZE})

# What CTest puts in front of a program of ours. Looking for leaks takes seconds at the end of every process, whatever
# that did. So the programs below, whose tests start no process of their own, run all their tests in one, Leaks.<program>,
# and the tests of the others are not looked at for leaks.
set(runner env UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0)
if(FLA_SANITIZE MATCHES address)
  set(FLA_LEAK_RUNNER env UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1
      LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/leak_sanitizer.supp)
  set(FLA_LEAK_TESTS bad_plugins_test cases_test common_test core_test dispatch_test kda_memory_test kda_test
                     kda_threads_test logging_test)
endif()
if(FLA_SANITIZE MATCHES thread)
  # OpenMP's runtime is not instrumented; its barriers are told to the sanitizer by Archer. A child of fork() may
  # start threads, which the sanitizer would otherwise refuse.
  file(REAL_PATH ${CMAKE_CXX_COMPILER} compiler)
  cmake_path(GET compiler PARENT_PATH compiler_folder)
  find_library(FLA_ARCHER archer HINTS ${compiler_folder}/../lib)
  if(NOT FLA_ARCHER)
    message(FATAL_ERROR "FLA_SANITIZE=thread: needs clang and its libarcher.so (Debian: clang, libomp-dev), "
                        "got ${CMAKE_CXX_COMPILER} without it")
  endif()
  list(APPEND runner OMP_TOOL_LIBRARIES=${FLA_ARCHER})
  set(options ignore_noninstrumented_modules=1 die_after_fork=0 second_deadlock_stack=1
      suppressions=${CMAKE_CURRENT_LIST_DIR}/thread_sanitizer.supp)
  list(JOIN options : options)
  list(APPEND runner TSAN_OPTIONS=${options})
  # The shadow memory of older ThreadSanitizers does not fit around the address randomisation of newer kernels.
  execute_process(COMMAND setarch -R true RESULT_VARIABLE no_setarch OUTPUT_QUIET ERROR_QUIET)
  if(NOT no_setarch)
    list(APPEND runner setarch -R)
  endif()
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR ${runner})
set(FLA_TEST_RUNNER "${runner}" CACHE INTERNAL "")  # for scripts/soak

# A process takes a sanitizer longer to start and to end than most tests take. The programs below, none of whose tests
# needs a process to itself, run all their tests in one, All.<program>, where they are not looked at for leaks.
set(FLA_ONE_PROCESS_TESTS bad_plugins_test common_test config_test core_test cpu_simd_test cuda_decode_verifier_test
                          dispatch_test flash_kda_verifier_test golden_test intracard_cp_verifier_test kda_reference_test
                          kda_test plugin_file_test recurrence_test safetensors_test tilelang_verifier_test)
# Nothing in these starts a thread: with ThreadSanitizer they are left out.
set(FLA_ONE_THREAD_TESTS cases_test cuda_decode_verifier_test flash_kda_verifier_test intracard_cp_verifier_test
                         safetensors_test tilelang_verifier_test)

# A child that was forked while other threads worked hangs, now and then, in locks that are not ours: those of the
# sanitizers' allocators, and of LLVM's OpenMP runtime. The tests of that run in the other builds.
# So do those of backends that are wrong on purpose: thousands of calls, which are about results and not about memory
# (StageSuite and ConformanceReport show here what the suite does when a check fails); the whole suite in the command, each
# check of which is a test of its own here; and those of one that damages the allocator's memory, which the sanitizers keep
# elsewhere.
set(FLA_TEST_FILTER
  "-*.ChildWorksWhileTheParentsThreads*:Fork.FromSeveralThreads*:*.ForkedChildren*:*/ConformanceOf.*:*/ConformanceOfMutant.*:\
*/ConformanceOfNoMutant.*:ConformanceChild.DamagedMemory*:ConformanceCommand.ChecksAPluginsBackendsAlone:\
ConformanceCommand.BackendThatTakesNothingHasShownNothing")
