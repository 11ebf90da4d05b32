#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Who did what before what. Everybody who touches memory is an *agent* with a clock of its own: threads, and
/// the engines that work for them. *Knowledge* is a vector clock: up to which time of each agent all it did
/// is known to have happened. An access that its maker does not know of is unordered with what he does now,
/// whatever the order was this time.
namespace fla::emulation {

using Agent = std::uint32_t;
using Clock = std::uint32_t;
inline constexpr Agent kNobody = ~Agent{0};

enum class Role : std::uint8_t {
  thread,
  loads,         ///< copies that complete on one mbarrier; its clock counts the phases
  products,      ///< wgmma of one warp; its clock counts the groups
  store_reads,   ///< bulk stores of one thread, what they read; its clock counts the groups
  store_writes,  ///< and what they write
};

class Knowledge {
 public:
  bool covers(Agent agent, Clock clock) const {
    return clocks_ && agent < clocks_->size() && (*clocks_)[agent] >= clock;
  }
  void learn(Agent agent, Clock clock);
  void join(const Knowledge& other);
  bool is(const Knowledge& other) const { return clocks_ == other.clocks_; }  ///< shared, so certainly equal

 private:
  std::vector<Clock>& own();  ///< for writing; shared clocks are copied first
  std::shared_ptr<std::vector<Clock>> clocks_;
};

struct AgentState {
  Role role = Role::thread;
  std::uint32_t block = 0;
  std::uint32_t index =
      0;            ///< of the thread or warp in its block; address of the mbarrier in its shared memory
  Clock clock = 1;  ///< of what it does now
  std::vector<Clock> fences{};  ///< of a thread: when it made its writes known to the async proxy
};

std::string name_of(const AgentState& agent);

class Agents {
 public:
  Agent add(AgentState state) {
    states_.push_back(std::move(state));
    return static_cast<Agent>(states_.size() - 1);
  }
  AgentState& operator[](Agent agent) { return states_[agent]; }
  const AgentState& operator[](Agent agent) const { return states_[agent]; }

 private:
  std::vector<AgentState> states_;
};

}  // namespace fla::emulation
