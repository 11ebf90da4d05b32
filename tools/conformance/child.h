#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace fla::conformance {

/// How a child process ended.
struct ChildOutcome {
  std::string sent;   ///< what the body returned; empty when it did not come to that
  std::string error;  ///< what the body threw
  std::string death;  ///< "was killed by signal 11 (Segmentation fault)"; empty when it ended by itself
  std::string doing;  ///< what it said last with note_progress()
};

/// Forks and runs the body in the child, so that a backend that crashes, ends the process or damages memory
/// does so there. The child has the calling thread alone. One that tells nothing for `silence` seconds is
/// killed.
ChildOutcome in_child(const std::function<std::string()>& body, int silence = 120);

/// In a child: what it is about to do, for the parent to tell should it die of it. Elsewhere nothing.
void note_progress(std::string_view doing);

/// Whether this process has initialised the CUDA driver: a child that is forked from it cannot use CUDA.
bool uses_cuda();

}  // namespace fla::conformance
