#pragma once

#include <cstdint>
#include <type_traits>

#include "fla/core/export.h"

namespace fla {

/// As many as CPU kernels use at most.
inline constexpr int kMaxThreads = 1024;

/// How many threads CPU kernels use: FLA_NUM_THREADS, or as many as OpenMP would. LLVM's OpenMP runtime
/// (clang builds) is gone when a thread or the process ends: calls from there run on one.
FLA_API int num_threads();

/// Sets it for the process; 0 goes back to what the environment says. Throws InvalidArgument for a count that
/// is negative or above kMaxThreads.
FLA_API void set_num_threads(int count);

/// How many threads to use for so many arithmetic operations. Waking a thread takes about 4 us, so each gets
/// at least that much work. At least 1, at most num_threads().
FLA_API int threads_worth(double operations);

namespace detail {
using ParallelBody = void (*)(void* context, std::int64_t task, int thread);
FLA_API void parallel_for(std::int64_t tasks, int threads, ParallelBody body, void* context);
}  // namespace detail

/// Calls body(task, thread) once for every task in [0, tasks), on up to `threads` threads, in no particular
/// order; `thread` is in [0, threads). Returns when all are done. What a body throws, the
/// first of them where several do, is thrown on the calling thread when no body runs any more; tasks that
/// have not begun by then are left out.
/// Works in a forked child, whatever the parent's threads were doing; with LLVM's OpenMP runtime (clang
/// builds) no other thread of the parent may be inside OpenMP at the moment of the fork, since a lock of its
/// stays taken.
template <class Body>
void parallel_for(std::int64_t tasks, int threads, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::parallel_for(
      tasks, threads,
      [](void* context, std::int64_t task, int thread) { (*static_cast<Plain*>(context))(task, thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// The same on up to num_threads() threads.
template <class Body>
void parallel_for(std::int64_t tasks, Body&& body) {
  parallel_for(tasks, num_threads(), body);
}

}  // namespace fla
