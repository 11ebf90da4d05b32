#include "tools/fla/peers.h"

#include <array>
#include <string>

#include "tools/fla/published_times.h"

namespace fla::command {
namespace {

constexpr std::string_view kFlashLinearAttention = "flash-linear-attention", kFlashQla = "FlashQLA";

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

std::vector<CudaCase> peers_forward(std::string_view gates) {
  struct Line {
    const char* name;
    std::int64_t T, H;
    std::vector<std::int64_t> lengths;
    double goal_ms;
  };
  const std::array lines{
      Line{"B1 T8192 H96", 8192, 96, {}, 0.60},
      Line{"B1 T8192 H64", 8192, 64, {}, 0.43},
      Line{"B1 T8192 H32", 8192, 32, {}, 0.30},
      Line{"B1 T8192 H8", 8192, 8, {}, 0.12},
      Line{"B1 T32768 H8", 32768, 8, {}, 0.45},
      Line{"B1 T1024 H32", 1024, 32, {}, 0.050},
      Line{"8 x 1024 H96", 8192, 96, even_lengths(8, 1024), 0.54},
      Line{"8 x 1024 H64", 8192, 64, even_lengths(8, 1024), 0.37},
      Line{"8 x 1024 H32", 8192, 32, even_lengths(8, 1024), 0.20},
      Line{"mixed lengths H96", 8192, 96, mixed_lengths(), 0.60},
      Line{"mixed lengths H64", 8192, 64, mixed_lengths(), 0.43},
      Line{"B1 T8192 H12", 8192, 12, {}, 0.17},
      Line{"4 x 2048 H12", 8192, 12, even_lengths(4, 2048), 0.14},
      Line{"B1 T32768 H4", 32768, 4, {}, 0.30},
      Line{"B1 T65536 H8", 65536, 8, {}, 0.85},
  };
  constexpr std::array columns{PeerColumn{kFlashLinearAttention, kFlashLinearAttention, LaunchMode::eager},
                               PeerColumn{"FlashKDA", "FlashKDA", LaunchMode::graph},
                               PeerColumn{"cuDNN", "cuDNN", LaunchMode::graph},
                               PeerColumn{"cuLA", "cuLA", LaunchMode::eager}};
  std::vector<CudaCase> list;
  for (const Line& line : lines) {
    CudaCase each{.name = line.name, .sizes = sizes(1, line.T, line.H), .lengths = line.lengths};
    if (!line.lengths.empty()) each.sizes[Axis::N] = static_cast<std::int64_t>(line.lengths.size());
    each.published = published_times("KDA forward, ms", {{"case", line.name}, {"gates", gates}}, columns);
    each.goal_s = 1e-3 * line.goal_ms;
    list.push_back(std::move(each));
  }
  return list;
}

std::vector<CudaCase> peers_decode() {
  struct Size {
    std::int64_t N, H;
  };
  constexpr std::array columns{PeerColumn{kFlashLinearAttention, kFlashLinearAttention, LaunchMode::graph},
                               PeerColumn{"eager", kFlashLinearAttention, LaunchMode::eager}};
  std::vector<CudaCase> list;
  for (const auto& [N, H] : {Size{1, 32}, Size{8, 32}, Size{32, 32}, Size{128, 32}, Size{256, 64}}) {
    for (const DType state : {DType::f32, DType::bf16}) {
      for (const bool v_first : {false, true}) {
        CudaCase each{.name = "decode N" + std::to_string(N) + " H" + std::to_string(H),
                      .sizes = sizes(N, 1, H),
                      .state_dtype = state,
                      .state_v_first = v_first};
        if (state == DType::f32)
          each.published = published_times("KDA decode", {{"case", each.name}}, columns);
        list.push_back(std::move(each));
      }
    }
  }
  return list;
}

std::vector<CudaCase> peers_backward(std::string_view op, std::string_view gates) {
  struct Line {
    const char* name;
    std::int64_t B, T, H, HV;
    std::vector<std::int64_t> lengths;
    double goal_ms;
  };
  const std::vector<Line> of_kda{
      {"B1 T8192 H32", 1, 8192, 32, 32, {}, 1.05},
      {"B1 T8192 H96", 1, 8192, 96, 96, {}, 3.0},
      {"B4 T4096 H16", 4, 4096, 16, 16, {}, 1.05},
      {"mixed lengths H32", 1, 8192, 32, 32, mixed_lengths(), 1.1},
      {"B1 T8192 H12", 1, 8192, 12, 12, {}, 0.5},
  };
  const std::vector<Line> of_gated_delta_rule{
      {"B1 T8192 H16/32", 1, 8192, 16, 32, {}, 0.65},
      {"B1 T8192 H2/8", 1, 8192, 2, 8, {}, 0.25},
  };
  const auto published = [&](std::string_view name) -> std::vector<PublishedTime> {
    if (gates != "random") return {};
    if (op == "kda") {
      constexpr std::array column{
          PeerColumn{kFlashLinearAttention, kFlashLinearAttention, LaunchMode::eager}};
      return published_times("KDA forward and backward", {{"case", name}}, column);
    }
    if (name != "B1 T8192 H16/32") return {};  // the one that the table of the family has
    constexpr std::array column{PeerColumn{"training", kFlashQla, LaunchMode::eager}};
    return published_times("The family, B1 T8192", {{"op", op}, {"library", kFlashQla}}, column);
  };
  std::vector<CudaCase> list;
  for (const Line& line : op == "kda"                ? of_kda
                          : op == "gated_delta_rule" ? of_gated_delta_rule
                                                     : std::vector<Line>{}) {
    CudaCase each{.name = line.name, .sizes = sizes(line.B, line.T, line.H), .lengths = line.lengths};
    each.sizes[Axis::HV] = line.HV;
    if (!line.lengths.empty()) each.sizes[Axis::N] = static_cast<std::int64_t>(line.lengths.size());
    each.published = published(line.name);
    each.goal_s = 1e-3 * line.goal_ms;
    list.push_back(std::move(each));
  }
  return list;
}

}  // namespace fla::command
