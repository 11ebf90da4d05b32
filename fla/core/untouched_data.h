#pragma once

namespace fla {

/// While one of these is on the thread, nobody reads what tensors hold: for who asks what a call would do.
class UntouchedData {
 public:
  UntouchedData();
  ~UntouchedData();
  UntouchedData(const UntouchedData&) = delete;
  UntouchedData& operator=(const UntouchedData&) = delete;

  /// Whether one is on this thread.
  static bool is_on();
};

}  // namespace fla
