#pragma once

#include <cstdint>

#include "fla/core/export.h"
#include "fla/dispatch/settings/policy.h"

namespace fla::dispatch {

struct CounterCell;
struct SnapshotHold;

/// What the dispatch keeps for a thread.
struct ThreadState {
  ScopedPolicy::Frame* scope = nullptr;
  CounterCell* cells = nullptr;
  SnapshotHold* holds = nullptr;  ///< by function, of the calls outside a ScopedPolicy
  std::uint32_t cell_count = 0;
  std::uint32_t hold_count = 0;
  std::uint32_t in_original = 0;  ///< how deep the thread is inside original::… functions
};
// Of the compiler's own TLS model: static TLS would keep the library from being loaded while a program runs,
// as Python does, since the CUDA runtime in it needs more than is set aside for that.
extern FLA_API constinit thread_local ThreadState thread_state;

/// While it lives, no backend is consulted on this thread for the stages of original kernels.
struct InsideOriginal {
  InsideOriginal() { ++thread_state.in_original; }
  ~InsideOriginal() { --thread_state.in_original; }
  InsideOriginal(const InsideOriginal&) = delete;
  InsideOriginal& operator=(const InsideOriginal&) = delete;
};

}  // namespace fla::dispatch
