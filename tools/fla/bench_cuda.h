#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "tools/cases/random_case.h"
#include "tools/fla/progress.h"
#include "tools/fla/settings.h"

/// The benchmark of an op on a GPU.
namespace fla::command {

/// graph: calls that were captured once and are replayed; eager: the public function, called in a loop.
enum class LaunchMode : std::uint8_t { graph, eager };
std::string_view name_of(LaunchMode mode);

/// What another library takes for the same call on an NVIDIA H200; see peers.h.
struct PublishedTime {
  std::string_view peer;
  LaunchMode mode;
  double seconds;
};

struct CudaCase {
  std::string name;
  AxisSizes sizes;
  std::vector<std::int64_t> lengths{};  ///< of packed sequences
  DType state_dtype = DType::f32;
  bool state_v_first = false;
  std::vector<PublishedTime> published{};
  double goal_s = 0;  ///< what fla is to take at most on an NVIDIA H200; 0: no such goal
};

struct CudaBenchRequest {
  std::string op = "kda";
  Device device{DeviceType::cuda, 0};
  std::vector<CudaCase> cases;
  std::vector<DType> dtypes;
  cases::DataKind data = cases::DataKind::random;
  std::string function;               ///< empty: the front door's choice
  std::vector<std::string> backends;  ///< empty: the original kernel and every backend that accepts
  bool backward = false;              ///< the backward function
  Settings options;                   ///< on top of cuda_options()
  int repetitions = 0;                ///< 0: as many as fit into `seconds`
  double seconds = 0.3;               ///< for each row
};

/// One backend on one case in one mode. Times are of one call.
struct CudaRow {
  const CudaCase* of = nullptr;  ///< one of the request's
  std::string function, backend;
  LaunchMode mode = LaunchMode::eager;
  bool with_forward = false;  ///< of a backward function: the forward one runs before it
  DType dtype = DType::bf16;
  bool in_place = false;  ///< the state is updated where it is
  int calls = 0;          ///< timed together, one after another
  int call_sets = 0;      ///< so many sets of tensors take turns, so that no cache holds the next one
  int repetitions = 0;
  double median_s = 0, min_s = 0;
  double error_o = 0, error_state = 0;  ///< of a backward function: its worst gradient's, and 0
  double bytes = 0;                     ///< that have to be read and written once
  std::size_t workspace_bytes = 0;
  std::string failure{};  ///< why there is no time; empty when there is one

  double token_heads() const {
    return static_cast<double>(of->sizes[Axis::B] * of->sizes[Axis::T] * of->sizes[Axis::HV]);
  }
};

struct CudaBenchReport {
  std::string op;
  Device device;
  std::string_view data;
  double copy_bytes_per_s = 0;
  std::vector<CudaRow> rows;

  /// The least time that the copy bandwidth leaves a row.
  double floor_s(const CudaRow& row) const { return row.bytes / copy_bytes_per_s; }
  /// The row of the same case and mode on the original kernel; null when it was not measured.
  const CudaRow* on_original(const CudaRow& row) const;
};

/// The options of every call of an op unless the request says otherwise, as far as it has them: gate with
/// lower bound -5, norm and sigmoid in the kernel, final state returned.
Settings cuda_options(ArgumentTable arguments);

/// How many steps of progress a request takes.
int bench_steps(const CudaBenchRequest& request);

/// Measures an op on a GPU with CUDA events. Backends and modes take turns; every one's results are compared,
/// on outputs that were poisoned before, with the float64 reference on a few heads. A kernel that fails
/// leaves a row that says so; after a lost device nothing more is measured. The rows point into the request.
/// Throws InvalidArgument, BackendError.
CudaBenchReport run_bench(const CudaBenchRequest& request, Progress& progress);

std::string to_text(const CudaBenchReport& report, const nlohmann::ordered_json& machine);
nlohmann::ordered_json to_json(const CudaBenchReport& report, const nlohmann::ordered_json& machine);

}  // namespace fla::command
