#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/emulation/device.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/knowledge.h"
#include "tests/emulation/shadow.h"

/// What is behind the instructions: blocks, threads and who of them runs. The instructions themselves are in
/// barriers.cpp, copies.cpp and matrices.cpp.
namespace fla::emulation {

struct Block;
struct Launch;

/// What a thread stopped for; printed when everybody has.
struct Wait {
  enum class For : std::uint8_t { nothing, threads, mbarrier, flag, kernel } what = For::nothing;
  Site site{};
  const char* instruction = "";  ///< of a meeting
  std::uint32_t number = 0;      ///< of a named barrier, or the address of an mbarrier
  std::uint32_t value = 0;       ///< parity, or the least value of a flag
  const std::uint32_t* flag = nullptr;
};

/// Accumulators of a wgmma on its way. Until the wait the thread's own array holds a number that nobody
/// computes.
struct Flight {
  float* registers;
  std::vector<float> values;
  Clock group;
};

struct Thread {
  Block* block = nullptr;
  std::uint32_t index = 0;
  Agent agent = kNobody;
  Knowledge known{};
  Knowledge fenced{};  ///< what it knew at its last fence for the async proxy
  Fiber fiber{};
  std::unique_ptr<Stack> stack{};
  Wait wait{};
  Site last{};  ///< where it was seen last
  bool ended = false;
  const std::uint32_t* flag = nullptr;  ///< that it loaded last
  std::uint32_t flag_value = 0;

  Agent store_reads = kNobody, store_writes = kNobody;  ///< kNobody before the first bulk store
  bool store_open = false;                              ///< a store since the last commit

  Clock group = 1;            ///< of wgmma, which is being filled
  bool wgmma_fenced = false;  ///< since the last wait
  std::vector<Flight> flights{};
};

/// Threads that need each other for one instruction.
struct Meeting {
  const char* instruction = nullptr;  ///< null: nobody is here
  std::uint32_t threads = 0, arrived = 0;
  std::vector<void*> brought{};  ///< by each of them, in the order of their places; null: who has gone on
  std::vector<Thread*> here{};
  Knowledge gone{};  ///< what those knew who arrived and went on
};

struct Mbarrier {
  std::uint32_t arrivals = 0, pending = 0;
  std::int64_t bytes = 0;  ///< announced and not yet there
  std::uint32_t phase = 0;
  Agent loads = kNobody;
  Knowledge arriving{}, done{};  ///< what those know who arrived: in this phase, in the one before
  std::vector<Thread*> waiting{};
  std::vector<Mark> saw{};  ///< the end of the phase before: threads that waited for it
};

/// Where a block's own shared memory begins; before that is the system's.
inline constexpr std::uint32_t kSharedBase = 1024;

struct Block {
  Launch* launch = nullptr;
  std::uint32_t index = 0, slot = 0, live = 0;
  bool let_next_come = false;
  std::vector<std::byte> shared{};
  std::optional<Shadow> shadow{};
  std::map<std::uint32_t, Mbarrier> mbarriers{};
  std::map<std::uint32_t, Knowledge> counters{};  ///< what was released with those in shared memory
  std::array<Meeting, 16> barriers{};
  std::vector<Meeting> warps{}, warpgroups{};
  std::vector<std::unique_ptr<Thread>> threads{};
};

struct Launch {
  const Kernel* kernel = nullptr;
  std::size_t index = 0;  ///< among those of the stream
  std::uint32_t started = 0, live = 0, let_next_come = 0, ended = 0;
  Knowledge begins{};              ///< of its threads
  Knowledge done{};                ///< of all that its blocks did
  std::vector<Thread*> waiting{};  ///< threads of the next kernel
  bool is_done() const { return ended == kernel->blocks; }
};

void end_phase_if_complete(Mbarrier& barrier);

class Machine {
 public:
  Machine(GlobalMemory& memory, const std::vector<Kernel>& kernels, const Options& options,
          std::set<Step>& steps);
  std::vector<Finding> run();

  static Machine& current();
  Thread& self() { return *self_; }
  Launch* before(const Launch& launch);  ///< null: it is the first one

  // ---- waiting

  /// Leaves the thread until somebody wakes it.
  void sleep(const Wait& wait);
  void wake(std::vector<Thread*>& threads);
  /// Lets the others run first.
  void yield();
  /// Leaves the thread until a flag in global memory has changed, or nobody else can do anything.
  void poll(const Wait& wait);
  void flags_changed() { wake(polling_); }

  /// `threads` threads meet in one instruction; `place` is the caller's among them. The last one to come
  /// calls act(), for all, with what each of them brought.
  template <class Brought, class Act>
  void meet(Meeting& meeting, const char* instruction, std::uint32_t threads, std::uint32_t place,
            Brought& brought, Site site, const Act& act) {
    if (!join(meeting, instruction, threads, place, &brought, site)) return;
    std::vector<Brought*> all(threads);
    for (std::uint32_t i = 0; i < threads; ++i) all[i] = static_cast<Brought*>(meeting.brought[i]);
    act(std::as_const(all));
    part(meeting);
  }

  /// The same for one who brings nothing and does not wait.
  template <class Act>
  void pass(Meeting& meeting, const char* instruction, std::uint32_t threads, Site site, const Act& act) {
    come(meeting, instruction, threads, site);
    meeting.gone.join(released(self()));
    if (++meeting.arrived < threads) return;
    act();
    part(meeting);
  }

  const Options& options() const { return options_; }

  // ---- knowledge

  Agents& agents() { return agents_; }
  Agent agent(std::uint32_t slot, Role role, std::uint32_t index, std::uint32_t block);
  /// All of them know afterwards what each of them knew.
  void synchronise(const std::vector<Thread*>& threads);
  /// What the thread knows and did, for others; what it does next is not part of it.
  Knowledge released(Thread& thread);
  std::map<const void*, Knowledge>& flags() { return flags_; }

  // ---- memory

  GlobalMemory& memory() { return memory_; }
  /// The bytes behind an address, checked against the block's memory and the access's alignment.
  std::byte* shared(Block& block, std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment,
                    Site site);
  const std::byte* read(Block& block, std::uint32_t address, std::uint32_t bytes, const Actor& actor);
  std::byte* write(Block& block, std::uint32_t address, std::uint32_t bytes, const Actor& actor);
  void read_global(const void* address, std::size_t bytes, const Actor& actor);
  void write_global(void* address, std::size_t bytes, const Actor& actor);

  /// Whether the thread is to leave out this step, or to wait for the wrong parity.
  bool leaves_out(const char* instruction, Site site) { return step(instruction, site) == Planted::left_out; }
  bool takes_wrong_parity(Site site) { return step("mbar_wait", site) == Planted::wrong_parity; }

  // ---- findings

  void found(Fault fault, std::string text);
  void missed_phase(const Mbarrier& barrier, const Mark& waiter);
  /// A finding after which the kernels cannot go on.
  [[noreturn]] void stop(Fault fault, std::string text);
  std::string name(const Thread& thread) const;  ///< "thread 3 of block 0 of prep"

 private:
  void come(Meeting& meeting, const char* instruction, std::uint32_t threads, Site site);
  bool join(Meeting& meeting, const char* instruction, std::uint32_t threads, std::uint32_t place,
            void* brought, Site site);
  void part(Meeting& meeting);
  void start_blocks();
  void start_block(Launch& launch);
  void end_thread();
  void end_block(Block& block);
  Thread* next();
  void found(const Clash& clash, const Actor& actor, bool writes, const std::string& memory);
  std::string deadlock() const;
  std::string text_of_wait(const Thread& thread) const;
  static void enter(void* thread);
  Planted step(const char* instruction, Site site);
  [[noreturn]] void touched(const void* address);  // what the program may not touch

  GlobalMemory& memory_;
  const Options& options_;
  std::set<Step>& steps_;
  std::map<std::tuple<const char*, const char*, int>, Planted> planted_;  // by instruction, file and line
  std::mt19937_64 random_;
  Agents agents_;
  std::map<std::tuple<std::uint32_t, Role, std::uint32_t>, Agent> known_agents_;
  std::map<const void*, Knowledge> flags_;
  std::deque<Launch> launches_;
  std::vector<std::unique_ptr<Block>> blocks_;        // by slot
  std::vector<std::unique_ptr<Block>> ended_blocks_;  // a last thread may still be on its way out
  std::vector<std::unique_ptr<Stack>> stacks_;        // that nobody is on
  std::vector<std::deque<Thread*>> ready_;            // by launch
  std::vector<Thread*> polling_;
  bool progress_ = false;  // since those who poll were all that was left
  int idle_polls_ = 0;
  Fiber scheduler_;
  Thread* self_ = nullptr;
  bool stopped_ = false;
  std::vector<Finding> findings_;
  std::set<std::tuple<Fault, const char*, int, const char*, int>> seen_;  // pairs of places in the source
};

/// The one that runs, and the thread that runs on it.
inline Machine& machine() { return Machine::current(); }
inline Thread& self() { return machine().self(); }

/// An access of shared memory by a thread.
struct ThreadActor {
  ThreadActor(Machine& on, Thread& thread, Site site)
      : known{&thread.known},
        actor{.mark = {thread.agent, on.agents()[thread.agent].clock, site},
              .known = known,
              .self = thread.agent} {
    thread.last = site;
  }
  ThreadActor(const ThreadActor&) = delete;
  ThreadActor& operator=(const ThreadActor&) = delete;
  std::array<const Knowledge*, 1> known;
  Actor actor;
};

}  // namespace fla::emulation
