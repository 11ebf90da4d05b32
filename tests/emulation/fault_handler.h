#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace fla::emulation {

/// Kernels use plain pointers. While this lives, an access of theirs to memory that is not there calls a
/// function, which may leave the faulting thread for good: the handler has a stack of its own, that nobody
/// returns to. When the function does return, the program ends as it would have without it.
class FaultHandler {
 public:
  explicit FaultHandler(void (*touched)(const void* address));
  ~FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;

 private:
  using Action = struct sigaction;
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
  Action segv_before_{}, bus_before_{};
};

}  // namespace fla::emulation
