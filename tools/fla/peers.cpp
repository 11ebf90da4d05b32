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

struct Line {
  const char* name;
  std::int64_t B, T, H, HV;
  std::vector<std::int64_t> lengths;
  double goal_ms;
};

/// Of those two ops; others have none.
template <class Published>
std::vector<CudaCase> cases_of(std::string_view op, const std::vector<Line>& of_kda,
                               const std::vector<Line>& of_gated_delta_rule, Published&& published) {
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

}  // namespace

std::vector<CudaCase> peers_forward(std::string_view op, std::string_view gates) {
  const std::vector<Line> of_kda{
      {"B1 T8192 H96", 1, 8192, 96, 96, {}, 0.60},
      {"B1 T8192 H64", 1, 8192, 64, 64, {}, 0.43},
      {"B1 T8192 H32", 1, 8192, 32, 32, {}, 0.30},
      {"B1 T8192 H8", 1, 8192, 8, 8, {}, 0.080},
      {"B1 T32768 H8", 1, 32768, 8, 8, {}, 0.26},
      {"B1 T1024 H32", 1, 1024, 32, 32, {}, 0.050},
      {"8 x 1024 H96", 1, 8192, 96, 96, even_lengths(8, 1024), 0.54},
      {"8 x 1024 H64", 1, 8192, 64, 64, even_lengths(8, 1024), 0.37},
      {"8 x 1024 H32", 1, 8192, 32, 32, even_lengths(8, 1024), 0.20},
      {"mixed lengths H96", 1, 8192, 96, 96, mixed_lengths(), 0.60},
      {"mixed lengths H64", 1, 8192, 64, 64, mixed_lengths(), 0.43},
      {"B1 T1024 H12", 1, 1024, 12, 12, {}, 0.030},
      {"B1 T2048 H12", 1, 2048, 12, 12, {}, 0.034},
      {"B1 T4096 H12", 1, 4096, 12, 12, {}, 0.058},
      {"B1 T8192 H12", 1, 8192, 12, 12, {}, 0.105},
      {"B1 T16384 H12", 1, 16384, 12, 12, {}, 0.20},
      {"4 x 2048 H12", 1, 8192, 12, 12, even_lengths(4, 2048), 0.14},
      {"B1 T32768 H4", 1, 32768, 4, 4, {}, 0.30},
      {"B1 T65536 H8", 1, 65536, 8, 8, {}, 0.50},
  };
  const std::vector<Line> of_gated_delta_rule{
      {"B1 T8192 H16/32", 1, 8192, 16, 32, {}, 0.17},
      {"B1 T8192 H16/64", 1, 8192, 16, 64, {}, 0.31},
      {"B1 T8192 H2/8", 1, 8192, 2, 8, {}, 0.085},
      {"B1 T32768 H2/8", 1, 32768, 2, 8, {}, 0.22},
      {"4 x 8192 H16/32", 1, 32768, 16, 32, even_lengths(4, 8192), 0.40},
      {"8 x 1024 H16/32", 1, 8192, 16, 32, even_lengths(8, 1024), 0.15},
  };
  const auto published = [&](std::string_view name) -> std::vector<PublishedTime> {
    if (op == "kda") {
      constexpr std::array columns{
          PeerColumn{kFlashLinearAttention, kFlashLinearAttention, LaunchMode::eager},
          PeerColumn{"FlashKDA", "FlashKDA", LaunchMode::graph},
          PeerColumn{"cuDNN", "cuDNN", LaunchMode::graph}, PeerColumn{"cuLA", "cuLA", LaunchMode::eager}};
      return published_times("KDA forward, ms", {{"case", name}, {"gates", gates}}, columns);
    }
    if (gates != "random") return {};
    constexpr std::array columns{PeerColumn{kFlashLinearAttention, kFlashLinearAttention, LaunchMode::eager},
                                 PeerColumn{kFlashQla, kFlashQla, LaunchMode::eager},
                                 PeerColumn{"FlashInfer", "FlashInfer", LaunchMode::eager}};
    return published_times("Gated DeltaNet forward, ms", {{"case", name}}, columns);
  };
  return cases_of(op, of_kda, of_gated_delta_rule, published);
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
  return cases_of(op, of_kda, of_gated_delta_rule, published);
}

}  // namespace fla::command
