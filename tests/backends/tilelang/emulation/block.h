#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fla::tilelang::generated {
inline constexpr std::size_t kSharedBytes = 227 * 1024;
extern constinit thread_local unsigned char buf_dyn_shmem[kSharedBytes];  ///< as TileLang calls it
}  // namespace fla::tilelang::generated

/// The blocks of a kernel's grid on the CPU, one after the other: a fiber a thread, which runs up to the next
/// barrier before another one does.
namespace fla::tilelang::emulated {

struct Index {
  int x = 0;
};
extern Index thread_index, block_index;

/// In which order threads run between two barriers, and when copies to shared memory arrive: with neither may
/// results change.
struct Schedule {
  enum class Order : std::uint8_t { forwards, backwards, rotating } order = Order::forwards;
  bool late_copies = false;  ///< when they are waited for, not before
};
void set_schedule(const Schedule& schedule);

/// Runs body as every thread of every block. Shared memory holds NaNs when a block begins.
void run_grid(int blocks, int threads, const std::function<void()>& body);

/// Of the block that runs.
int thread_count();

/// All threads of a block come here, or none: otherwise the program ends with a line that says so.
void barrier();

/// What every thread of the block has written here, for instructions that exchange values.
std::uint64_t& posted(int thread);

/// cp.async: a copy of this thread, the end of a group of them, and waiting for all but the last groups.
void copy(void* to, const void* from, std::size_t bytes);
void end_group();
void wait_for_groups(int but_the_last);

}  // namespace fla::tilelang::emulated
