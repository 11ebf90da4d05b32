#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

/// Runs a kernel's grid on the CPU, one block after the other, for kernels that a C++ compiler can read. Each
/// thread is a fiber that runs until it has to wait. Unlike machine.h this does not check accesses for races;
/// it can change the order of threads and delay copies.
namespace fla::emulation::block {

struct Index {
  int x = 0, y = 0, z = 0;
};
extern Index thread_index, block_index;

/// In which order threads run between two barriers, and when copies to shared memory arrive: with neither may
/// results change.
struct Schedule {
  enum class Order : std::uint8_t {
    forwards,  ///< each thread until it has to wait, for its warp or for the block
    backwards,
    rotating,
    first_warp_first,  ///< each warp until it has to wait for the block
    last_warp_first,
  } order = Order::forwards;
  bool late_copies = false;  ///< when they are waited for, not before

  bool warp_by_warp() const { return order == Order::first_warp_first || order == Order::last_warp_first; }
};
void set_schedule(const Schedule& schedule);

/// Runs body as every thread of every block. `shared` holds NaNs when a block begins.
void run_grid(std::int64_t blocks, int threads, std::span<unsigned char> shared,
              const std::function<void()>& body);

/// Of the block that runs.
int thread_count();

/// All threads of a block come here, or none: otherwise the program ends with a line that says so.
void barrier();

/// What every thread of the block has written here, for instructions that exchange values between barriers.
std::uint64_t& posted(int thread);

using Words = std::array<std::uint32_t, 6>;

/// An exchange of values between the lanes of a warp. The constructor waits for all lanes; what they brought
/// is there until the lane's next exchange.
class WarpExchange {
 public:
  explicit WarpExchange(const Words& own);
  const Words& operator[](int lane) const;

 private:
  int first_, slot_;
};

/// For threads that look again and again.
void let_others_run();

bool copies_are_late();

/// cp.async: a copy of this thread, the end of a group of them, and waiting for all but the last groups.
void copy(void* to, const void* from, std::size_t bytes);
void end_group();
void wait_for_groups(int but_the_last);

}  // namespace fla::emulation::block
