#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "commit.h"
#include "tools/fla/bench_cuda.h"
#include "tools/fla/bench_shape.h"
#include "tools/fla/chosen_backend.h"
#include "tools/fla/command.h"
#include "tools/fla/json_number.h"
#include "tools/fla/text_table.h"

namespace fla::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLegend[] =
    R"(graph, eager: ms, medians by CUDA events. graph: calls captured in one graph, each on tensors of its own as the layers of
a model have them; eager: the public function in a loop, outputs and workspace given. Together the tensors are larger than
the cache. floor: what a call has to read and write once, at the rate of copies; of floor: its share of the faster time.
Errors are those of o and the final state, or of the worst gradient, against a float64 recurrence on a few heads. workspace: MB.
)";
constexpr char kPeersLegend[] =
    R"(The fastest backend of each case. Peers: ms on an NVIDIA H200, as tools/bench/results/peers.txt has them, with their versions:
flash-linear-attention (prefill), cuLA and FlashQLA eager and compared with eager, the others and decode in graphs; x: how many
times as long they take. Goal: ms that fla is to take at most, compared with the faster of graph and eager. Mixed lengths are
1300, 547, 2048, 963, 271 and 3063. Gradients: forward and backward together.
)";

/// Milliseconds to four digits, whatever their size.
std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return formatted(ms < 0.1 ? "%.4f" : ms < 10 ? "%.3f" : "%.2f", ms);
}

/// The modes of one backend on one case; null where a mode was not measured.
struct Line {
  const CudaRow* graph = nullptr;
  const CudaRow* eager = nullptr;

  const CudaRow& any() const { return graph != nullptr ? *graph : *eager; }
  const CudaRow*& of(LaunchMode mode) { return mode == LaunchMode::graph ? graph : eager; }
  const CudaRow* of(LaunchMode mode) const { return mode == LaunchMode::graph ? graph : eager; }
  bool is_of(const CudaRow& row) const {
    return any().of == row.of && any().dtype == row.dtype && any().backend == row.backend &&
           any().with_forward == row.with_forward;
  }

  /// The modes that did not fail.
  std::vector<const CudaRow*> measured() const {
    std::vector<const CudaRow*> rows;
    for (const CudaRow* row : {graph, eager}) {
      if (row != nullptr && row->failure.empty()) rows.push_back(row);
    }
    return rows;
  }
  /// The time of the faster mode; infinite when both failed.
  double best_s() const {
    double best = std::numeric_limits<double>::infinity();
    for (const CudaRow* row : measured()) best = std::min(best, row->median_s);
    return best;
  }
  /// The larger one of the modes.
  double worst(double CudaRow::*error) const {
    double worst = 0;
    for (const CudaRow* row : measured()) worst = std::max(worst, row->*error);
    return worst;
  }
};

std::vector<Line> lines_of(const CudaBenchReport& report) {
  std::vector<Line> lines;
  for (const CudaRow& row : report.rows) {
    auto found = std::ranges::find_if(lines, [&](const Line& line) { return line.is_of(row); });
    if (found == lines.end()) found = lines.insert(found, Line{});
    found->of(row.mode) = &row;
  }
  return lines;
}

/// Of each case the line that is fastest.
std::vector<Line> fastest(const std::vector<Line>& lines) {
  std::vector<Line> best;
  for (const Line& line : lines) {
    const auto same = std::ranges::find_if(best, [&](const Line& other) {
      return other.any().of == line.any().of && other.any().dtype == line.any().dtype &&
             other.any().with_forward == line.any().with_forward;
    });
    if (same == best.end()) {
      best.push_back(line);
    } else if (line.best_s() < same->best_s()) {
      *same = line;
    }
  }
  return best;
}

std::string time_text(const CudaRow* row) {
  return row == nullptr ? "-" : row->failure.empty() ? milliseconds(row->median_s) : "FAILED";
}

std::string share_text(const CudaBenchReport& report, const Line& line) {
  return formatted("%.1f %%", 100 * report.floor_s(line.any()) / line.best_s());
}

std::string dtypes_text(const CudaRow& row) {
  return std::string(name_of(row.dtype)) + ", " + std::string(name_of(row.of->state_dtype)) +
         (row.of->state_v_first ? " [V,K]" : " [K,V]");
}

std::string megabytes(std::size_t bytes) { return formatted("%.1f", static_cast<double>(bytes) * 1e-6); }

/// A peer's time for a line's case in the mode that it is compared in: graphs, where it has a time of them.
const PublishedTime* published(const Line& line, std::string_view peer) {
  const PublishedTime* found = nullptr;
  for (const PublishedTime& time : line.any().of->published) {
    if (time.peer == peer && (found == nullptr || time.mode == LaunchMode::graph)) found = &time;
  }
  return found;
}

/// The peers of any row, in the order in which they come.
std::vector<std::string_view> peers_of(const CudaBenchReport& report) {
  std::vector<std::string_view> peers;
  for (const CudaRow& row : report.rows) {
    for (const PublishedTime& time : row.of->published) {
      if (std::ranges::count(peers, time.peer) == 0) peers.push_back(time.peer);
    }
  }
  return peers;
}

std::string header(const CudaBenchReport& report, const Json& machine) {
  const auto fact = [&machine](const char* name) { return machine.value(name, ""); };
  std::string text = "$ " + command_line() + "\n";
  if (std::string_view(FLA_COMMIT) != "") text += "commit " FLA_COMMIT "\n";
  text += fact("gpu") + " (" + to_string(report.device) + "), driver " + fact("driver") + ", CUDA " +
          fact("cuda") + ", built with CUDA " + fact("cuda_toolkit") + ", " + fact("compiler") + "\n";
  text += fact("cpu") + ", " + std::to_string(machine.value("cores", 0)) + " cores\n";
  text +=
      formatted("%.2f", report.copy_bytes_per_s * 1e-12) + " TB/s read and written by copies on the device\n";
  return text + "data: " + std::string(report.data) + "\n";
}

std::string table_of(const CudaBenchReport& report, const std::vector<Line>& lines) {
  TextTable table({"case", "inputs, state", "function", "backend", "graph", "eager", "floor", "of floor",
                   "x original", "error o", "error state", "workspace"});
  for (const Line& line : lines) {
    const CudaRow& row = line.any();
    const auto original = std::ranges::find_if(lines, [&](const Line& other) {
      return other.any().of == row.of && other.any().dtype == row.dtype && other.any().backend == kOriginal &&
             other.any().with_forward == row.with_forward;
    });
    const bool compared = original != lines.end() && std::isfinite(original->best_s());
    std::vector<std::string> cells{row.of->name,
                                   dtypes_text(row),
                                   (row.with_forward ? "forward, " : "") + row.function,
                                   row.backend,
                                   time_text(line.graph),
                                   time_text(line.eager),
                                   milliseconds(report.floor_s(row))};
    if (const auto measured = line.measured(); !measured.empty()) {
      cells.insert(cells.end(), {share_text(report, line),
                                 compared ? formatted("%.2f", original->best_s() / line.best_s()) : "-",
                                 formatted("%.1e", line.worst(&CudaRow::error_o)),
                                 formatted("%.1e", line.worst(&CudaRow::error_state)),
                                 megabytes(measured.front()->workspace_bytes)});
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string peers_table(const CudaBenchReport& report, const std::vector<Line>& lines,
                        const std::vector<std::string_view>& peers) {
  std::vector<std::string> titles{"case", "inputs, state", "backend", "graph", "eager", "of floor"};
  for (const std::string_view peer : peers) {
    titles.emplace_back(peer);
    titles.emplace_back("x");
  }
  const bool goals = std::ranges::any_of(lines, [](const Line& line) { return line.any().of->goal_s > 0; });
  if (goals) titles.insert(titles.end(), {"goal", "x"});
  TextTable table(titles);
  for (const Line& line : lines) {
    std::vector<std::string> cells{line.any().of->name,   dtypes_text(line.any()), line.any().backend,
                                   time_text(line.graph), time_text(line.eager),   share_text(report, line)};
    for (const std::string_view peer : peers) {
      const PublishedTime* const time = published(line, peer);
      const CudaRow* const row = time == nullptr ? nullptr : line.of(time->mode);
      cells.push_back(time == nullptr ? "-" : milliseconds(time->seconds));
      cells.push_back(
          row == nullptr || !row->failure.empty() ? "-" : formatted("%.2f", time->seconds / row->median_s));
    }
    if (const double goal = line.any().of->goal_s; goal > 0) {
      cells.push_back(milliseconds(goal));
      cells.push_back(std::isfinite(line.best_s()) ? formatted("%.2f", goal / line.best_s()) : "-");
    } else if (goals) {
      cells.insert(cells.end(), {"-", "-"});
    }
    table.add(std::move(cells));
  }
  return table.text();
}

Json row_json(const CudaBenchReport& report, const CudaRow& row) {
  Json json{{"case", row.of->name},
            {"op", report.op},
            {"function", row.function},
            {"backend", row.backend},
            {"device", to_string(report.device)},
            {"dtype", name_of(row.dtype)},
            {"state_dtype", name_of(row.of->state_dtype)},
            {"state_v_first", row.of->state_v_first},
            {"state_in_place", row.in_place},
            {"data", report.data},
            {"threads", 1},
            {"shape", shape_json(row.of->sizes)},
            {"mode", name_of(row.mode)}};
  if (row.with_forward) json["with_forward"] = true;
  if (!row.of->lengths.empty()) json["lengths"] = row.of->lengths;
  json["workspace_bytes"] = row.workspace_bytes;
  json["bytes"] = row.bytes;
  json["floor_s"] = number(report.floor_s(row));
  json["copy_bytes_per_s"] = number(report.copy_bytes_per_s);
  if (!row.failure.empty()) {
    json["failure"] = row.failure;
    return json;
  }
  json["calls"] = row.calls;
  json["call_sets"] = row.call_sets;
  json["repetitions"] = row.repetitions;
  json["median_s"] = number(row.median_s);
  json["min_s"] = number(row.min_s);
  json["ns_per_token_head"] = number(row.token_heads() > 0 ? 1e9 * row.median_s / row.token_heads() : 0);
  json["copy_share"] = number(report.floor_s(row) / row.median_s);
  const CudaRow* const original = report.on_original(row);
  json["times_original"] = original == nullptr ? Json(nullptr) : number(original->median_s / row.median_s);
  json["error_o"] = number(row.error_o);
  json["error_state"] = number(row.error_state);
  if (row.of->goal_s > 0) json["goal_s"] = row.of->goal_s;
  if (row.of->published.empty()) return json;
  Json peers = Json::array();
  for (const PublishedTime& time : row.of->published) {
    if (time.mode != row.mode) continue;
    peers.push_back({{"name", time.peer},
                     {"published_s", time.seconds},
                     {"times_faster", number(time.seconds / row.median_s)}});
  }
  json["peers"] = std::move(peers);
  return json;
}

}  // namespace

std::string_view name_of(LaunchMode mode) { return mode == LaunchMode::graph ? "graph" : "eager"; }

Settings cuda_options(ArgumentTable arguments) {
  Settings settings{{"use_gate_in_kernel", "1"},
                    {"lower_bound", "-5"},
                    {"use_qk_l2norm_in_kernel", "1"},
                    {"use_beta_sigmoid_in_kernel", "1"},
                    {"output_final_state", "1"}};
  std::erase_if(settings, [&](const auto& setting) {
    return std::ranges::find(arguments, setting.first, &Argument::name) == arguments.end();
  });
  return settings;
}

const CudaRow* CudaBenchReport::on_original(const CudaRow& row) const {
  const auto found = std::ranges::find_if(rows, [&](const CudaRow& other) {
    return other.of == row.of && other.dtype == row.dtype && other.mode == row.mode &&
           other.with_forward == row.with_forward && other.backend == kOriginal && other.failure.empty();
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string to_text(const CudaBenchReport& report, const Json& machine) {
  const std::vector<Line> lines = lines_of(report);
  std::string text = header(report, machine) + "\n" + table_of(report, lines) + "\n" + kLegend;
  const std::vector<std::string_view> peers = peers_of(report);
  if (peers.empty()) return text;
  std::vector<Line> compared = fastest(lines);
  const auto has_forward = [](const Line& line) { return line.any().with_forward; };
  if (std::ranges::any_of(compared, has_forward)) std::erase_if(compared, std::not_fn(has_forward));
  return text + "\n" + peers_table(report, compared, peers) + "\n" + kPeersLegend;
}

Json to_json(const CudaBenchReport& report, const Json& machine) {
  Json rows = Json::array();
  for (const CudaRow& row : report.rows) rows.push_back(row_json(report, row));
  return {{"command", command_line()},
          {"machine", machine},
          {"commit", FLA_COMMIT},
          {"yardsticks", Json::array({{{"device", to_string(report.device)},
                                       {"copy_bytes_per_s", number(report.copy_bytes_per_s)}}})},
          {"rows", rows}};
}

}  // namespace fla::command
