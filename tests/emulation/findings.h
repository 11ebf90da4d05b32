#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fla::emulation {

/// Where an instruction stands in the source.
struct Site {
  const char* file = "";
  int line = 0;
};
/// "fold.cuh:20"
std::string text_of(Site site);

/// "1 byte", "2 bytes"
std::string count_of(std::size_t count, std::string_view thing);

enum class Fault : std::uint8_t {
  race,                ///< accesses of shared memory, or of global memory by copies, that nothing orders
  missing_fence,       ///< the async proxy meets what a thread wrote without fence.proxy.async
  uninitialised_read,  ///< of shared memory that nobody wrote
  rewritten_source,    ///< of a bulk store that may still be reading it
  out_of_bounds,       ///< of shared memory, or of the buffers in global memory
  deadlock,            ///< everybody waits
  missed_phase,        ///< of an mbarrier, by a thread that may come to wait for it when the next is over too
  misuse,              ///< what the instruction set does not allow
};
std::string_view name_of(Fault fault);

struct Finding {
  Fault fault;
  std::string text;
};

/// One line each, "race: …"; nothing when there is none.
std::string text_of(const std::vector<Finding>& findings);

}  // namespace fla::emulation
