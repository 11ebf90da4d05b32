#include <string>

#include "tests/emulation/machine.h"

// Who is who, and who waits for what.
namespace fla::emulation {

std::string Machine::name(const Thread& thread) const {
  return "thread " + std::to_string(thread.index) + " of block " + std::to_string(thread.block->index) +
         " of " + thread.block->launch->kernel->name;
}

std::string Machine::text_of_wait(const Thread& thread) const {
  if (thread.ended) return "ended";
  const Wait& wait = thread.wait;
  const std::string at = " (" + text_of(wait.site) + ")";
  switch (wait.what) {
    case Wait::For::nothing: return "could run";
    case Wait::For::threads: {
      return std::string("wait in ") + wait.instruction + at + " for " + std::to_string(wait.value) +
             " threads";
    }
    case Wait::For::mbarrier: {
      const Mbarrier& barrier = thread.block->mbarriers.at(wait.number);
      return "wait for parity " + std::to_string(wait.value) + " of the mbarrier at " +
             std::to_string(wait.number - kSharedBase) + at + ", which is in phase " +
             std::to_string(barrier.phase) + " and lacks " + std::to_string(barrier.pending) + " of " +
             count_of(barrier.arrivals, "arrival") + " and " + std::to_string(barrier.bytes) + " bytes";
    }
    case Wait::For::flag:
      return "wait for a flag" + at + " to be at least " + std::to_string(wait.value) + ", it is " +
             std::to_string(*wait.flag);
    case Wait::For::kernel: break;
  }
  return "wait for the kernel before" + at;
}

std::string Machine::deadlock() const {
  std::string text = "nobody can go on";
  for (const auto& block : blocks_) {
    if (!block) continue;
    text += "; block " + std::to_string(block->index) + " of " + block->launch->kernel->name + ": ";
    for (std::size_t i = 0; i < block->threads.size();) {
      const std::string wait = text_of_wait(*block->threads[i]);
      std::size_t end = i + 1;
      while (end < block->threads.size() && text_of_wait(*block->threads[end]) == wait) ++end;
      text += (i > 0 ? ", " : "") + std::string(end - i > 1 ? "threads " : "thread ") + std::to_string(i);
      if (end - i > 1) text += " to " + std::to_string(end - 1);
      text += " " + wait;
      i = end;
    }
  }
  return text;
}

}  // namespace fla::emulation
