#pragma once

namespace fla::cases {

/// While one of these lives, a signal that would end the process is only noted; it takes effect when the last
/// of them goes, and the process ends as if the signal had come then. Signals that the program ignores or
/// handles itself are left to it.
class DeferredSignals {
 public:
  DeferredSignals();
  ~DeferredSignals();
  DeferredSignals(const DeferredSignals&) = delete;
  DeferredSignals& operator=(const DeferredSignals&) = delete;

  /// The signal that waits, 0 if none does. Long work looks here and gives up.
  static int pending() noexcept;
};

}  // namespace fla::cases
