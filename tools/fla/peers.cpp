#include "tools/fla/peers.h"

#include <array>
#include <numeric>

namespace fla::command {
namespace {

constexpr std::string_view kFlashLinearAttention = "flash-linear-attention", kFlashKda = "FlashKDA";

AxisSizes sizes(std::int64_t B, std::int64_t T, std::int64_t H) {
  AxisSizes all;
  all[Axis::B] = B, all[Axis::T] = T, all[Axis::K] = all[Axis::V] = 128;
  all[Axis::H] = all[Axis::HV] = H;
  return all;
}

std::vector<std::int64_t> mixed_lengths() { return {1300, 547, 2048, 963, 271, 3063}; }
std::vector<std::int64_t> even_lengths() { return std::vector<std::int64_t>(8, 1024); }

}  // namespace

std::vector<CudaCase> peers_forward() {
  struct Line {
    const char* name;
    std::int64_t T, H;
    std::vector<std::int64_t> lengths;
    double flash_linear_attention_ms, flash_kda_ms;
  };
  const std::array lines{
      Line{"B1 T8192 H96", 8192, 96, {}, 2.957, 1.479},
      Line{"B1 T8192 H64", 8192, 64, {}, 2.114, 1.239},
      Line{"B1 T8192 H32", 8192, 32, {}, 1.418, 1.034},
      Line{"B1 T8192 H8", 8192, 8, {}, 1.065, 0.855},
      Line{"B1 T32768 H8", 32768, 8, {}, 2.138, 3.325},
      Line{"B1 T1024 H32", 1024, 32, {}, 0.868, 0.174},
      Line{"8 x 1024 H96", 8192, 96, even_lengths(), 3.198, 1.257},
      Line{"8 x 1024 H64", 8192, 64, even_lengths(), 2.373, 0.856},
      Line{"8 x 1024 H32", 8192, 32, even_lengths(), 1.276, 0.474},
      Line{"mixed lengths H96", 8192, 96, mixed_lengths(), 3.152, 1.460},
      Line{"mixed lengths H64", 8192, 64, mixed_lengths(), 2.551, 1.092},
  };
  std::vector<CudaCase> list;
  for (const Line& line : lines) {
    CudaCase each{.name = line.name, .sizes = sizes(1, line.T, line.H), .lengths = line.lengths};
    if (!line.lengths.empty()) each.sizes[Axis::N] = static_cast<std::int64_t>(line.lengths.size());
    each.published = {{kFlashLinearAttention, LaunchMode::eager, 1e-3 * line.flash_linear_attention_ms},
                      {kFlashKda, LaunchMode::eager, 1e-3 * line.flash_kda_ms}};
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

}  // namespace fla::command
