#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/emulation/findings.h"
#include "tests/emulation/global_memory.h"

/// A GPU on the CPU, to run kernels written on backends/flash_kda/ptx.cuh. Threads are fibers, and every
/// instruction is watched; README.md says what is found and what is not.
namespace fla::emulation {

struct Kernel {
  std::string name{};
  std::uint32_t blocks = 1;
  std::uint32_t threads = 128;     ///< of a block, a multiple of 32
  std::uint32_t shared_bytes = 0;  ///< of a block, at most 227 KB
  std::function<void(std::uint32_t shared)>
      body{};                  ///< what a thread does; `shared`: where the shared memory begins
  std::uint32_t resident = 0;  ///< blocks that are there at once, as many as fit on a device; 0: all
  bool early = false;  ///< may begin when all blocks of the kernel before have let it come, or have ended
};

/// An instruction that keeps others apart or in order, at its place in the source.
struct Step {
  std::string instruction;  ///< "barrier", "fence_async", …
  std::string file;         ///< without its folder
  int line = 0;
  bool operator==(const Step&) const = default;
  bool operator<(const Step& other) const {
    return std::tie(instruction, file, line) < std::tie(other.instruction, other.file, other.line);
  }
};

/// A fault: a step that does nothing, or an mbar_wait that waits for the other parity.
enum class Planted : std::uint8_t { nothing, left_out, wrong_parity };

struct Options {
  std::uint64_t seed = 0;  ///< of the order in which threads run; 0: in turn
  /// Asked when a thread comes to a step that nobody took before; what it says holds for the whole run.
  std::function<Planted(const Step&)> plant{};
  bool stop_at_first = false;  ///< finding
  // The SM that block 0 runs on, and how far apart those of blocks are.
  std::uint32_t first_processor = 0, processors_apart = 1;
};

class Device {
 public:
  /// `count` elements of global memory, all bits set. Copies reach buffers alone.
  template <class T>
  std::span<T> buffer(std::string name, std::size_t count) {
    return {reinterpret_cast<T*>(memory_.add(std::move(name), count * sizeof(T))), count};
  }

  /// Runs kernels one after the other, as a stream does. Stops at the first finding after which nothing makes
  /// sense; races and their like are gathered, one of each pair of places in the source. What is found does
  /// not depend on the order of threads as long as the kernels' way through their source does not.
  std::vector<Finding> run(const std::vector<Kernel>& kernels, const Options& options = {});

  /// The steps that the last run took.
  const std::set<Step>& steps() const { return steps_; }

 private:
  GlobalMemory memory_;
  std::set<Step> steps_;
};

}  // namespace fla::emulation
