#include "tests/emulation/knowledge.h"

namespace fla::emulation {

std::vector<Clock>& Knowledge::own() {
  if (!clocks_)
    clocks_ = std::make_shared<std::vector<Clock>>();
  else if (clocks_.use_count() > 1)
    clocks_ = std::make_shared<std::vector<Clock>>(*clocks_);
  return *clocks_;
}

void Knowledge::learn(Agent agent, Clock clock) {
  if (covers(agent, clock)) return;
  std::vector<Clock>& clocks = own();
  if (clocks.size() <= agent) clocks.resize(agent + 1);
  clocks[agent] = clock;
}

void Knowledge::join(const Knowledge& other) {
  if (!other.clocks_ || clocks_ == other.clocks_) return;
  if (!clocks_) {
    clocks_ = other.clocks_;
    return;
  }
  std::vector<Clock>& clocks = own();
  const std::vector<Clock>& others = *other.clocks_;
  if (clocks.size() < others.size()) clocks.resize(others.size());
  for (std::size_t i = 0; i < others.size(); ++i) clocks[i] = std::max(clocks[i], others[i]);
}

std::string name_of(const AgentState& agent) {
  const std::string of_block = " of block " + std::to_string(agent.block);
  const std::string index = std::to_string(agent.index);
  switch (agent.role) {
    case Role::thread: return "thread " + index + of_block;
    case Role::loads: return "a copy for the mbarrier at " + index + of_block;
    case Role::products: return "a wgmma of warp " + index + of_block;
    case Role::store_reads:
    case Role::store_writes: break;
  }
  return "a bulk store of thread " + index + of_block;
}

}  // namespace fla::emulation
