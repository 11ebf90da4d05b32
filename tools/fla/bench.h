#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fla/core/arguments.h"
#include "tools/cases/random_case.h"
#include "tools/fla/progress.h"
#include "tools/fla/settings.h"

namespace fla::command {

struct BenchCase {
  std::string name;
  AxisSizes sizes;
};

struct BenchRequest {
  std::string op = "kda";
  std::vector<BenchCase> cases;
  std::vector<DType> dtypes;
  std::vector<int> threads;
  cases::DataKind gates = cases::DataKind::random;
  std::string function;               ///< empty: the front door's choice
  bool backward = false;              ///< the backward function
  std::vector<std::string> backends;  ///< empty: the original kernel and every backend that accepts
  Settings options;
  int repetitions = 0;  ///< 0: as many as fit into `seconds`
  double seconds = 1;   ///< for each row
};

/// One backend on one case. Times are of one call.
struct BenchRow {
  std::string case_name, function, backend;
  DType dtype = DType::f32;
  int threads = 1;
  AxisSizes sizes;
  int repetitions = 0;
  double median_s = 0, min_s = 0;
  double error_o = 0;  ///< of the backward function, its worst gradient's against the original kernel's
  std::optional<double> error_state;
  double operations = 0;  ///< that the recurrence needs
  double bytes = 0;       ///< that have to be read and written once

  double token_heads() const {
    return static_cast<double>(sizes[Axis::B] * sizes[Axis::T] * sizes[Axis::HV]);
  }
  double ns_per_token_head() const { return token_heads() > 0 ? 1e9 * median_s / token_heads() : 0; }
};

/// What the machine could do on so many threads, in the same run.
struct Yardstick {
  int threads = 1;
  double operations_per_s = 0, copy_bytes_per_s = 0;
  std::string target;
};

struct BenchReport {
  std::string op;
  std::vector<BenchRow> rows;
  std::vector<Yardstick> yardsticks;

  const Yardstick& yardstick(int threads) const;
  /// The least time that the yardsticks leave a row: its arithmetic or its bytes, whichever takes longer.
  double floor_s(const BenchRow& row) const;
  double arithmetic_share(const BenchRow& row) const;
  double copy_share(const BenchRow& row) const;
  /// The row of the same case on the original kernel, or on one thread; null when it was not measured.
  const BenchRow* on_original(const BenchRow& row) const;
  const BenchRow* on_one_thread(const BenchRow& row) const;
};

/// How many steps of progress a request takes.
int bench_steps(const BenchRequest& request);

/// Measures an op. Backends take turns, so that a machine that slows down slows all of them; outputs are
/// poisoned before they are compared with the float64 reference on a few heads. Throws InvalidArgument,
/// BackendError.
BenchReport run_bench(const BenchRequest& request, Progress& progress);

std::string to_text(const BenchReport& report, const nlohmann::ordered_json& machine);
nlohmann::ordered_json to_json(const BenchReport& report, const nlohmann::ordered_json& machine);
/// A page that needs nothing but itself.
std::string to_html(const nlohmann::ordered_json& report);

}  // namespace fla::command
