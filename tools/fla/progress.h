#pragma once

#include <string_view>

namespace fla::command {

/// A bar on standard error that says how far a long job has come; silent unless a person is watching, that
/// is, unless standard error is a terminal.
class Progress {
 public:
  explicit Progress(int steps);
  ~Progress();  ///< wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The step that begins now; earlier ones are done.
  void begin(std::string_view what);

 private:
  int steps_, done_ = -1;
  bool watched_;
};

}  // namespace fla::command
