#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/device.h"

/// What every backend of an op must show before anybody trusts it, as a function: for the backends that are
/// linked in, and for any that a program registers or loads.
namespace fla::conformance {

struct Options {
  std::string golden_dir{};  ///< files <op>*.safetensors; empty: no golden cases
  Device device{};           ///< where the calls run; calls are made, and answers judged, on the host
  /// How many allocations the process has made so far, where somebody counts them; verifiers are held to
  /// making none.
  std::function<std::uint64_t()> allocations{};
  std::string argument{};  ///< the check "arguments" tries values of this one alone; empty: of all
  std::string plugin{};    ///< a plugin file to load first, where the check runs; empty: none
  /// Whether a backend passes though something could not be shown of it.
  bool allow_not_shown = false;
  /// Whether a check runs in a child process, so that a backend that crashes, ends the process or damages
  /// memory fails the check by name and leaves the caller alone. A process that has initialised CUDA cannot
  /// fork a child that uses it: there, checks on a GPU run in the process itself. Make the checks first.
  bool in_child = true;
};

/// What one check of one backend found.
struct Report {
  std::string op, backend, check;
  std::string skipped{};                ///< why nothing was checked: the backend or the device is not there
  std::int64_t calls = 0;               ///< those that the backend took
  std::int64_t refused = 0;             ///< those that it did not, which is its right
  std::vector<std::string> failures{};  ///< one line each; at most a few of a kind
  /// Values of arguments that the backend refuses in every call of the search, and why, one line each.
  std::vector<std::string> refusals{};
  std::vector<std::string> not_shown{};  ///< what the check could not show, one line each
  bool allow_not_shown = false;          ///< as Options has it

  bool ok() const { return failures.empty() && (not_shown.empty() || allow_not_shown); }
  std::string text() const;
};

/// The ops that have checks.
std::span<const std::string_view> ops_with_checks();

/// The names of an op's checks. Throws InvalidArgument for an op that has none.
std::span<const std::string_view> checks(std::string_view op);

/// The names of an op's backends, "original" first. Asked in a child process: this one does not touch CUDA
/// and loads nothing.
std::vector<std::string> backends_of(std::string_view op);

/// The golden cases that came with the libfla that runs: share/fla/golden below its prefix, or below the
/// build folder. Empty when they are not there.
std::string golden_dir();

/// Runs one check on the backend of that name; "original" is the original kernel. Throws InvalidArgument for
/// names that do not exist. Leaves the settings as they were.
Report run_check(std::string_view op, std::string_view backend, std::string_view check,
                 const Options& options);

/// Runs all of them.
std::vector<Report> run_conformance(std::string_view op, std::string_view backend, const Options& options);

}  // namespace fla::conformance
