#include "backends/cpu_simd/targets.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cctype>

namespace fla::cpu_simd {

const std::vector<Target>& supported_targets() {
  static const auto& targets = *new const std::vector<Target>([] {  // never freed: calls may come late
    std::vector<Target> found;
    // A lower bit is a better target. Except for SVE_256: the machines that have it do as many multiply-adds
    // a cycle with NEON, and NEON's tiles are the ones that were measured on them.
    for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
      const std::int64_t id = rest & -rest;
      const ChunkKernel* chunk = chunk_kernel(id);
      const RecurrentKernel* recurrent = recurrent_kernel(id);
      const ReplayKernel* replay = replay_kernel(id);
      const BackwardKernel* backward = backward_kernel(id);
      if (chunk && recurrent && replay && backward)
        found.push_back({id, hwy::TargetName(id), chunk, recurrent, replay, backward});
    }
    std::stable_partition(found.begin(), found.end(),
                          [](const Target& target) { return target.id != HWY_SVE_256; });
    return found;
  }());
  return targets;
}

const Target* target_called(std::string_view name) {
  const auto same = [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); };
  for (const Target& target : supported_targets()) {
    if (std::ranges::equal(target.name, name, same)) return &target;
  }
  return nullptr;
}

std::string target_names() {
  std::string names;
  for (const Target& target : supported_targets()) {
    if (!names.empty()) names += ", ";
    names += target.name;
  }
  return names;
}

}  // namespace fla::cpu_simd
