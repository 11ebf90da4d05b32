#pragma once

namespace fla {

/// While such an object exists on a thread, calls on that thread do not read the contents of tensors. Explain
/// uses it.
class UntouchedData {
 public:
  UntouchedData();
  ~UntouchedData();
  UntouchedData(const UntouchedData&) = delete;
  UntouchedData& operator=(const UntouchedData&) = delete;

  /// Whether one exists on this thread.
  static bool is_on();
};

}  // namespace fla
