#include <algorithm>
#include <string_view>

#include "bench_page.h"
#include "commit.h"
#include "fla/core/json_line.h"
#include "tools/fla/bench.h"
#include "tools/fla/bench_shape.h"
#include "tools/fla/chosen_backend.h"
#include "tools/fla/command.h"
#include "tools/fla/json_number.h"
#include "tools/fla/text_table.h"

namespace fla::command {
namespace {

using Json = nlohmann::ordered_json;

bool same_case(const BenchRow& a, const BenchRow& b) {
  return a.case_name == b.case_name && a.function == b.function && a.dtype == b.dtype;
}

const BenchRow* find(const std::vector<BenchRow>& rows, auto&& predicate) {
  const auto found = std::ranges::find_if(rows, predicate);
  return found == rows.end() ? nullptr : &*found;
}

Json ratio(const BenchRow* over, const BenchRow& row) {
  return over == nullptr ? Json(nullptr) : number(over->median_s / row.median_s);
}

std::string times(const BenchRow* over, const BenchRow& row) {
  return over == nullptr ? "-" : formatted("%.2f", over->median_s / row.median_s);
}

}  // namespace

Json shape_json(const AxisSizes& sizes) {
  Json shape = Json::object();
  for (const Axis axis : {Axis::B, Axis::T, Axis::H, Axis::HV, Axis::K, Axis::V, Axis::N}) {
    if (sizes[axis] >= 0) shape[std::string(kAxisNames[static_cast<std::size_t>(axis)])] = sizes[axis];
  }
  return shape;
}

const Yardstick& BenchReport::yardstick(int threads) const {
  return *std::ranges::find(yardsticks, threads, &Yardstick::threads);
}

double BenchReport::arithmetic_share(const BenchRow& row) const {
  return row.operations / row.median_s / yardstick(row.threads).operations_per_s;
}

double BenchReport::copy_share(const BenchRow& row) const {
  return row.bytes / row.median_s / yardstick(row.threads).copy_bytes_per_s;
}

double BenchReport::floor_s(const BenchRow& row) const {
  return row.median_s * std::max(arithmetic_share(row), copy_share(row));
}

const BenchRow* BenchReport::on_original(const BenchRow& row) const {
  return find(rows, [&](const BenchRow& other) {
    return same_case(row, other) && other.threads == row.threads && other.backend == kOriginal;
  });
}

const BenchRow* BenchReport::on_one_thread(const BenchRow& row) const {
  return find(rows, [&](const BenchRow& other) {
    return same_case(row, other) && other.threads == 1 && other.backend == row.backend;
  });
}

std::string to_text(const BenchReport& report, const Json& machine) {
  std::string text = "$ " + command_line() + "\n";
  if (std::string_view(FLA_COMMIT) != "") text += "commit " FLA_COMMIT "\n";
  text += machine.value("cpu", "") + ", " + std::to_string(machine.value("cores", 0)) + " cores, " +
          machine.value("compiler", "") + "\n";
  for (const Yardstick& yardstick : report.yardsticks) {
    text += std::to_string(yardstick.threads) + (yardstick.threads == 1 ? " thread: " : " threads: ") +
            formatted("%.1f", yardstick.operations_per_s * 1e-9) +
            " GFLOP/s of multiply-adds in registers (" + yardstick.target + "), " +
            formatted("%.1f", yardstick.copy_bytes_per_s * 1e-9) + " GB/s read and written by copies\n";
  }
  TextTable table({"case", "dtype", "threads", "function", "backend", "ns/token-head", "best", "x original",
                   "arithmetic", "copy", "x 1 thread", "error o", "error state"});
  for (const BenchRow& row : report.rows) {
    table.add({row.case_name, std::string(name_of(row.dtype)), std::to_string(row.threads), row.function,
               row.backend, formatted("%.0f", row.ns_per_token_head()),
               formatted("%.0f", 1e9 * row.min_s / std::max(row.token_heads(), 1.0)),
               times(report.on_original(row), row), formatted("%.1f %%", 100 * report.arithmetic_share(row)),
               formatted("%.1f %%", 100 * report.copy_share(row)), times(report.on_one_thread(row), row),
               formatted("%.1e", row.error_o), row.error_state ? formatted("%.1e", *row.error_state) : "-"});
  }
  return text + "\n" + table.text() +
         "\narithmetic: share of the multiply-add rate; copy: share of the copy bandwidth, for the bytes "
         "that a call has "
         "to read and write once.\n";
}

Json to_json(const BenchReport& report, const Json& machine) {
  Json yardsticks = Json::array();
  for (const Yardstick& yardstick : report.yardsticks) {
    yardsticks.push_back({{"threads", yardstick.threads},
                          {"fma_operations_per_s", number(yardstick.operations_per_s)},
                          {"simd_target", yardstick.target},
                          {"copy_bytes_per_s", number(yardstick.copy_bytes_per_s)}});
  }
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) {
    const Yardstick& yardstick = report.yardstick(row.threads);
    rows.push_back({{"case", row.case_name},
                    {"op", report.op},
                    {"function", row.function},
                    {"backend", row.backend},
                    {"device", "cpu"},
                    {"dtype", name_of(row.dtype)},
                    {"threads", row.threads},
                    {"shape", shape_json(row.sizes)},
                    {"repetitions", row.repetitions},
                    {"median_s", number(row.median_s)},
                    {"min_s", number(row.min_s)},
                    {"ns_per_token_head", number(row.ns_per_token_head())},
                    {"floor_s", number(report.floor_s(row))},
                    {"fma_operations_per_s", number(yardstick.operations_per_s)},
                    {"copy_bytes_per_s", number(yardstick.copy_bytes_per_s)},
                    {"arithmetic_share", number(report.arithmetic_share(row))},
                    {"copy_share", number(report.copy_share(row))},
                    {"times_original", ratio(report.on_original(row), row)},
                    {"times_one_thread", ratio(report.on_one_thread(row), row)},
                    {"mode", "eager"},
                    {"error_o", number(row.error_o)},
                    {"error_state", row.error_state ? number(*row.error_state) : Json(nullptr)}});
  }
  return {{"command", command_line()},
          {"machine", machine},
          {"commit", FLA_COMMIT},
          {"yardsticks", yardsticks},
          {"rows", rows}};
}

std::string to_html(const Json& report) {
  // Inside a script element "</" would end it; JSON may write the slash escaped.
  std::string data = json_line(report);
  for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3)
    data.replace(at, 2, "<\\/");
  constexpr std::string_view kPlace = "/*REPORT*/";
  std::string page = kBenchPage;
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

}  // namespace fla::command
