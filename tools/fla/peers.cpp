#include "tools/fla/peers.h"

#include <array>
#include <numeric>

namespace fla::command {
namespace {

constexpr std::string_view kFlashLinearAttention = "flash-linear-attention", kFlashKda = "FlashKDA",
                           kCula = "cuLA", kFlashQla = "FlashQLA";

AxisSizes sizes(std::int64_t B, std::int64_t T, std::int64_t H) {
  AxisSizes all;
  all[Axis::B] = B, all[Axis::T] = T, all[Axis::K] = all[Axis::V] = 128;
  all[Axis::H] = all[Axis::HV] = H;
  return all;
}

std::vector<std::int64_t> mixed_lengths() { return {1300, 547, 2048, 963, 271, 3063}; }
std::vector<std::int64_t> even_lengths(std::size_t sequences, std::int64_t tokens) {
  return std::vector<std::int64_t>(sequences, tokens);
}

}  // namespace

std::vector<CudaCase> peers_forward() {
  struct Line {
    const char* name;
    std::int64_t T, H;
    std::vector<std::int64_t> lengths;
    double flash_linear_attention_ms, flash_kda_ms, cula_ms;  // 0: not known
    double goal_ms;
  };
  const std::array lines{
      Line{"B1 T8192 H96", 8192, 96, {}, 2.957, 1.479, 0, 0.60},
      Line{"B1 T8192 H64", 8192, 64, {}, 2.114, 1.239, 1.111, 0.43},
      Line{"B1 T8192 H32", 8192, 32, {}, 1.418, 1.034, 0, 0.30},
      Line{"B1 T8192 H8", 8192, 8, {}, 1.065, 0.855, 0.318, 0.12},
      Line{"B1 T32768 H8", 32768, 8, {}, 2.138, 3.325, 0.877, 0.45},
      Line{"B1 T1024 H32", 1024, 32, {}, 0.868, 0.174, 0, 0.050},
      Line{"8 x 1024 H96", 8192, 96, even_lengths(8, 1024), 3.198, 1.257, 0, 0.54},
      Line{"8 x 1024 H64", 8192, 64, even_lengths(8, 1024), 2.373, 0.856, 0, 0.37},
      Line{"8 x 1024 H32", 8192, 32, even_lengths(8, 1024), 1.276, 0.474, 0, 0.20},
      Line{"mixed lengths H96", 8192, 96, mixed_lengths(), 3.152, 1.460, 0, 0.60},
      Line{"mixed lengths H64", 8192, 64, mixed_lengths(), 2.551, 1.092, 0, 0.43},
      Line{"B1 T8192 H12", 8192, 12, {}, 0, 0, 0, 0.17},
      Line{"4 x 2048 H12", 8192, 12, even_lengths(4, 2048), 0, 0, 0, 0.14},
      Line{"B1 T32768 H4", 32768, 4, {}, 0, 0, 0.597, 0.30},
      Line{"B1 T65536 H8", 65536, 8, {}, 0, 0, 1.624, 0.85},
  };
  std::vector<CudaCase> list;
  for (const Line& line : lines) {
    CudaCase each{.name = line.name, .sizes = sizes(1, line.T, line.H), .lengths = line.lengths};
    if (!line.lengths.empty()) each.sizes[Axis::N] = static_cast<std::int64_t>(line.lengths.size());
    const auto publish = [&each](std::string_view peer, double ms) {
      if (ms > 0) each.published.push_back({peer, LaunchMode::eager, 1e-3 * ms});
    };
    publish(kFlashLinearAttention, line.flash_linear_attention_ms);
    publish(kFlashKda, line.flash_kda_ms);
    publish(kCula, line.cula_ms);
    each.goal_s = 1e-3 * line.goal_ms;
    list.push_back(std::move(each));
  }
  return list;
}

std::vector<CudaCase> peers_decode() {
  struct Line {
    std::int64_t N, H;
    double graph_ms, eager_ms;  // of flash-linear-attention
  };
  constexpr std::array lines{Line{1, 32, 0.0111, 0.139}, Line{8, 32, 0.0186, 0.113},
                             Line{32, 32, 0.0558, 0.142}, Line{128, 32, 0.172, 0.280},
                             Line{256, 64, 0.823, 1.078}};
  std::vector<CudaCase> list;
  for (const Line& line : lines) {
    for (const DType state : {DType::f32, DType::bf16}) {
      for (const bool v_first : {false, true}) {
        CudaCase each{.name = "decode N" + std::to_string(line.N) + " H" + std::to_string(line.H),
                      .sizes = sizes(line.N, 1, line.H),
                      .state_dtype = state,
                      .state_v_first = v_first};
        if (state == DType::f32) {
          each.published = {{kFlashLinearAttention, LaunchMode::graph, 1e-3 * line.graph_ms},
                            {kFlashLinearAttention, LaunchMode::eager, 1e-3 * line.eager_ms}};
        }
        list.push_back(std::move(each));
      }
    }
  }
  return list;
}

std::vector<CudaCase> peers_backward(std::string_view op) {
  struct Line {
    const char* name;
    std::int64_t B, T, H, HV;
    std::vector<std::int64_t> lengths;
    std::string_view peer;
    double peer_ms;  // 0: not known
    double goal_ms;
  };
  const std::vector<Line> of_kda{
      {"B1 T8192 H32", 1, 8192, 32, 32, {}, kFlashLinearAttention, 5.56, 1.05},
      {"B1 T8192 H96", 1, 8192, 96, 96, {}, kFlashLinearAttention, 0, 3.0},
      {"B4 T4096 H16", 4, 4096, 16, 16, {}, kFlashLinearAttention, 5.78, 1.05},
      {"mixed lengths H32", 1, 8192, 32, 32, mixed_lengths(), kFlashLinearAttention, 6.02, 1.1},
      {"B1 T8192 H12", 1, 8192, 12, 12, {}, kFlashLinearAttention, 0, 0.5},
  };
  const std::vector<Line> of_gated_delta_rule{
      {"B1 T8192 H16/32", 1, 8192, 16, 32, {}, kFlashQla, 1.03, 0.65},
      {"B1 T8192 H2/8", 1, 8192, 2, 8, {}, kFlashQla, 0, 0.25},
  };
  std::vector<CudaCase> list;
  for (const Line& line : op == "kda"                ? of_kda
                          : op == "gated_delta_rule" ? of_gated_delta_rule
                                                     : std::vector<Line>{}) {
    CudaCase each{.name = line.name, .sizes = sizes(line.B, line.T, line.H), .lengths = line.lengths};
    each.sizes[Axis::HV] = line.HV;
    if (!line.lengths.empty()) each.sizes[Axis::N] = static_cast<std::int64_t>(line.lengths.size());
    if (line.peer_ms > 0) each.published.push_back({line.peer, LaunchMode::eager, 1e-3 * line.peer_ms});
    each.goal_s = 1e-3 * line.goal_ms;
    list.push_back(std::move(each));
  }
  return list;
}

}  // namespace fla::command
