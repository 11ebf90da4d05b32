#include "tests/emulation/machine.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/emulation/fault_handler.h"

namespace fla::emulation {
namespace {

constexpr std::uint32_t kMostShared = 227 * 1024;
constexpr std::size_t kMostFindings = 20;

Machine* running = nullptr;

}  // namespace

std::vector<Finding> Device::run(const std::vector<Kernel>& kernels, const Options& options) {
  for (const Kernel& kernel : kernels) {
    if (kernel.threads == 0 || kernel.threads % 32 != 0 || kernel.threads > 1024)
      throw std::invalid_argument("Kernel::threads: expected a multiple of 32 up to 1024, got " +
                                  std::to_string(kernel.threads));
    if (kernel.shared_bytes > kMostShared)
      throw std::invalid_argument("Kernel::shared_bytes: expected at most " + std::to_string(kMostShared) +
                                  ", got " + std::to_string(kernel.shared_bytes));
  }
  steps_.clear();
  return Machine(memory_, kernels, options, steps_).run();
}

Machine::Machine(GlobalMemory& memory, const std::vector<Kernel>& kernels, const Options& options,
                 std::set<Step>& steps)
    : memory_(memory), options_(options), steps_(steps), random_(options.seed) {
  for (const Kernel& kernel : kernels) launches_.push_back({.kernel = &kernel, .index = launches_.size()});
  ready_.resize(launches_.size());
  for (const auto& buffer : memory_.buffers()) buffer->shadow().clear();
}

Machine& Machine::current() { return *running; }

std::vector<Finding> Machine::run() {
  Machine* const before = std::exchange(running, this);
  const FaultHandler handler([](const void* address) {
    if (running->self_) running->touched(address);
  });
  for (;;) {
    start_blocks();
    Thread* const thread = next();
    if (!thread) break;
    self_ = thread;
    Fiber::switch_to(scheduler_, thread->fiber);
    self_ = nullptr;
    if (stopped_) break;
  }
  if (!stopped_ &&
      std::any_of(launches_.begin(), launches_.end(), [](const Launch& l) { return !l.is_done(); }))
    findings_.push_back({Fault::deadlock, deadlock()});
  for (const auto& buffer : memory_.buffers())
    if (buffer->is_overrun())
      findings_.push_back({Fault::out_of_bounds, "somebody wrote beside " + buffer->name()});
  running = before;
  return std::move(findings_);
}

// ---- blocks and threads

void Machine::start_blocks() {
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    Launch& launch = launches_[i];
    const Kernel& kernel = *launch.kernel;
    if (i > 0) {
      const Launch& before = launches_[i - 1];
      if (before.is_done()) {
        if (!kernel.early && launch.started == 0) launch.begins.join(before.done);
      } else if (!kernel.early || before.let_next_come < before.kernel->blocks) {
        return;
      }
    }
    while (launch.started < kernel.blocks && (kernel.resident == 0 || launch.live < kernel.resident))
      start_block(launch);
  }
}

void Machine::start_block(Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  const auto free = std::find(blocks_.begin(), blocks_.end(), nullptr);
  const auto slot = static_cast<std::uint32_t>(free - blocks_.begin());
  if (free == blocks_.end()) blocks_.emplace_back();
  blocks_[slot] = std::make_unique<Block>();
  Block& block = *blocks_[slot];
  block.launch = &launch;
  block.index = launch.started++;
  block.slot = slot;
  block.live = kernel.threads;
  ++launch.live;
  block.shared.assign(kernel.shared_bytes, std::byte{0xff});
  block.shadow.emplace(kernel.shared_bytes, 2, false);
  block.warps.resize(kernel.threads / 32);
  block.warpgroups.resize((kernel.threads + 127) / 128);
  for (std::uint32_t i = 0; i < kernel.threads; ++i) {
    auto thread = std::make_unique<Thread>();
    thread->block = &block;
    thread->index = i;
    thread->agent = agent(slot, Role::thread, i, block.index);
    thread->known = launch.begins;
    thread->group = agents_[agent(slot, Role::products, i / 32, block.index)].clock;
    if (stacks_.empty()) {
      thread->stack = std::make_unique<Stack>();
    } else {
      thread->stack = std::move(stacks_.back());
      stacks_.pop_back();
    }
    thread->fiber.start(*thread->stack, enter, thread.get());
    ready_[launch.index].push_back(thread.get());
    block.threads.push_back(std::move(thread));
  }
}

void Machine::enter(void* thread) {
  static_cast<Thread*>(thread)->block->launch->kernel->body(kSharedBase);
  running->end_thread();
}

void Machine::end_thread() {
  Thread& thread = self();
  Block& block = *thread.block;
  thread.ended = true;
  if (thread.store_reads != kNobody &&
      (thread.store_open || !thread.known.covers(thread.store_reads, agents_[thread.store_reads].clock - 1)))
    found(Fault::rewritten_source, name(thread) + " ended before its bulk stores had read their sources");
  if (!thread.flights.empty()) found(Fault::misuse, name(thread) + " ended before a wgmma of its");
  if (--block.live == 0) end_block(block);
  Fiber::switch_to(thread.fiber, scheduler_);
}

void Machine::end_block(Block& block) {
  Launch& launch = *block.launch;
  for (const auto& thread : block.threads) {
    launch.done.join(thread->known);
    stacks_.push_back(std::move(thread->stack));
  }
  for (const auto& [key, agent] : known_agents_)  // the end of a block completes all it began
    if (std::get<0>(key) == block.slot) launch.done.learn(agent, agents_[agent].clock++);
  --launch.live;
  ++launch.ended;
  if (!block.let_next_come) ++launch.let_next_come;
  if (launch.is_done()) wake(launch.waiting);
  ended_blocks_.push_back(std::move(blocks_[block.slot]));
}

Thread* Machine::next() {
  ended_blocks_.clear();
  // The newest kernel first: one that does not wait for what another makes for it is seen.
  const auto newest = [&] {
    return std::find_if(ready_.rbegin(), ready_.rend(), [](const auto& queue) { return !queue.empty(); });
  };
  auto queue = newest();
  if (queue == ready_.rend() && !polling_.empty()) {
    // Nobody can change anything but those who look for a change. They get another look, and one more.
    idle_polls_ = progress_ ? 0 : idle_polls_ + 1;
    if (idle_polls_ <= 2) wake(polling_);
    progress_ = false;
  }
  if (queue == ready_.rend() && (queue = newest()) == ready_.rend()) return nullptr;
  if (options_.seed != 0) std::swap(queue->front(), (*queue)[random_() % queue->size()]);
  Thread* const thread = queue->front();
  queue->pop_front();
  return thread;
}

Launch* Machine::before(const Launch& launch) {
  return &launch == &launches_.front() ? nullptr : &launches_[launch.index - 1];
}

// ---- waiting

void Machine::sleep(const Wait& wait) {
  Thread& thread = self();
  thread.wait = wait;
  if (wait.site.line != 0) thread.last = wait.site;
  Fiber::switch_to(thread.fiber, scheduler_);
  thread.wait = {};
}

void Machine::wake(std::vector<Thread*>& threads) {
  progress_ = true;
  for (Thread* thread : threads) ready_[thread->block->launch->index].push_back(thread);
  threads.clear();
}

void Machine::yield() {
  ready_[self().block->launch->index].push_back(&self());
  sleep({});
}

void Machine::poll(const Wait& wait) {
  polling_.push_back(&self());
  sleep(wait);
}

void Machine::come(Meeting& meeting, const char* instruction, std::uint32_t threads, Site site) {
  Thread& thread = self();
  thread.last = site;
  if (!meeting.instruction) {
    meeting.instruction = instruction;
    meeting.threads = threads;
    meeting.brought.assign(threads, nullptr);
  }
  if (std::strcmp(meeting.instruction, instruction) != 0 || meeting.threads != threads)
    stop(Fault::misuse,
         name(thread) + " is in " + instruction + " of " + count_of(threads, "thread") + " (" +
             text_of(site) + ") where " +
             (meeting.here.empty() ? "others have been" : name(*meeting.here.front()) + " is") + " in " +
             meeting.instruction + " of " + count_of(meeting.threads, "thread") +
             (meeting.here.empty() ? "" : " (" + text_of(meeting.here.front()->last) + ")"));
}

bool Machine::join(Meeting& meeting, const char* instruction, std::uint32_t threads, std::uint32_t place,
                   void* brought, Site site) {
  Thread& thread = self();
  come(meeting, instruction, threads, site);
  meeting.brought[place] = brought;
  meeting.here.push_back(&thread);
  if (++meeting.arrived == threads) return true;
  sleep({.what = Wait::For::threads,
         .site = site,
         .instruction = instruction,
         .number = meeting.arrived,
         .value = threads});
  return false;
}

void Machine::part(Meeting& meeting) {
  std::erase(meeting.here, self_);
  wake(meeting.here);
  meeting.instruction = nullptr;
  meeting.arrived = 0;
}

// ---- knowledge

Agent Machine::agent(std::uint32_t slot, Role role, std::uint32_t index, std::uint32_t block) {
  const auto [at, is_new] = known_agents_.try_emplace({slot, role, index}, kNobody);
  if (is_new) at->second = agents_.add({.role = role, .index = index});
  agents_[at->second].block = block;
  return at->second;
}

void Machine::synchronise(const std::vector<Thread*>& threads) {
  Knowledge all;
  const Knowledge* last = nullptr;
  for (Thread* thread : threads) {
    if (!last || !last->is(thread->known)) all.join(thread->known);
    last = &thread->known;
  }
  for (Thread* thread : threads) all.learn(thread->agent, agents_[thread->agent].clock++);
  for (Thread* thread : threads) thread->known = all;
}

Knowledge Machine::released(Thread& thread) {
  Knowledge all = thread.known;
  all.learn(thread.agent, agents_[thread.agent].clock++);
  return all;
}

Planted Machine::step(const char* instruction, Site site) {
  const auto [at, is_new] = planted_.try_emplace({instruction, site.file, site.line});
  if (is_new) {
    const std::string_view file = site.file;
    const Step step{instruction, std::string(file.substr(file.find_last_of('/') + 1)), site.line};
    if (options_.plant) at->second = options_.plant(step);
    steps_.insert(step);
  }
  return at->second;
}

// ---- findings

void Machine::found(Fault fault, std::string text) {
  if (options_.stop_at_first && !stopped_) stop(fault, std::move(text));
  if (findings_.size() < kMostFindings) findings_.push_back({fault, std::move(text)});
}

void Machine::stop(Fault fault, std::string text) {
  stopped_ = true;
  found(fault, std::move(text));
  for (;;) Fiber::switch_to(self().fiber, scheduler_);
}

}  // namespace fla::emulation
