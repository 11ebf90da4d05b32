#include <string>

#include "tests/emulation/machine.h"

// Accesses of memory as the machine sees them: inside it, known to be in order, and what is said when not.
namespace fla::emulation {

std::byte* Machine::shared(Block& block, std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment,
                           Site site) {
  const std::size_t size = block.shared.size();
  if (address < kSharedBase || address - kSharedBase > size || bytes > size - (address - kSharedBase))
    stop(Fault::out_of_bounds, name(self()) + " reaches for " + count_of(bytes, "byte") + " at " +
                                   std::to_string(static_cast<std::int64_t>(address) - kSharedBase) +
                                   " of the block's " + std::to_string(size) + " of shared memory (" +
                                   text_of(site) + ")");
  if (address % alignment != 0)
    stop(Fault::misuse, name(self()) + " reaches for " + count_of(bytes, "byte") + " of shared memory at " +
                            std::to_string(address - kSharedBase) + ", expected a multiple of " +
                            std::to_string(alignment) + " (" + text_of(site) + ")");
  return block.shared.data() + (address - kSharedBase);
}

const std::byte* Machine::read(Block& block, std::uint32_t address, std::uint32_t bytes, const Actor& actor) {
  const std::byte* const at = shared(block, address, bytes, 1, actor.mark.site);
  if (const auto clash = block.shadow->read(address - kSharedBase, bytes, actor, agents_))
    found(*clash, actor, false, "shared memory");
  return at;
}

std::byte* Machine::write(Block& block, std::uint32_t address, std::uint32_t bytes, const Actor& actor) {
  std::byte* const at = shared(block, address, bytes, 1, actor.mark.site);
  if (const auto clash = block.shadow->write(address - kSharedBase, bytes, actor, agents_))
    found(*clash, actor, true, "shared memory");
  return at;
}

namespace {
[[noreturn]] void outside(Machine& m, const void* address, std::size_t bytes, const Actor& actor) {
  const Buffer* const near = m.memory().near(address);
  const std::string where = near ? std::to_string(static_cast<const std::byte*>(address) - near->data()) +
                                       " of " + near->name() + ", which has " + std::to_string(near->bytes())
                                 : "an address that is no buffer's";
  m.stop(Fault::out_of_bounds, name_of(m.agents()[actor.mark.agent]) + " reaches for " +
                                   std::to_string(bytes) + " bytes at " + where + " (" +
                                   text_of(actor.mark.site) + ")");
}
}  // namespace

void Machine::read_global(const void* address, std::size_t bytes, const Actor& actor) {
  Buffer* const buffer = memory_.holding(address, bytes);
  if (!buffer) outside(*this, address, bytes, actor);
  const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(address) - buffer->data());
  if (const auto clash = buffer->shadow().read(at, bytes, actor, agents_))
    found(*clash, actor, false, buffer->name());
}

void Machine::write_global(void* address, std::size_t bytes, const Actor& actor) {
  Buffer* const buffer = memory_.holding(address, bytes);
  if (!buffer) outside(*this, address, bytes, actor);
  const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(address) - buffer->data());
  if (const auto clash = buffer->shadow().write(at, bytes, actor, agents_))
    found(*clash, actor, true, buffer->name());
}

void Machine::touched(const void* address) {
  Thread& thread = self();
  const auto* const at = static_cast<const std::byte*>(address);
  std::string where = "an address that is no buffer's";
  if (const Buffer* const near = memory_.near(address))
    where = "byte " + std::to_string(at - near->data()) + " of " + near->name() + ", which has " +
            std::to_string(near->bytes());
  else if (thread.stack->is_guarded(address))
    where = "memory below its stack";
  stop(Fault::out_of_bounds,
       name(thread) + " touches " + where +
           (thread.last.line ? ", some time after " + text_of(thread.last) : std::string()));
}

void Machine::missed_phase(const Mbarrier& barrier, const Mark& waiter) {
  if (!seen_.insert({Fault::missed_phase, waiter.site.file, waiter.site.line, "", 0}).second) return;
  found(Fault::missed_phase, "the mbarrier at " + std::to_string(agents_[barrier.loads].index) +
                                 " may end phase " + std::to_string(barrier.phase) + " before " +
                                 name_of(agents_[waiter.agent]) + " (" + text_of(waiter.site) +
                                 ") has seen the end of the one before: it would wait for ever");
}

void Machine::found(const Clash& clash, const Actor& actor, bool writes, const std::string& memory) {
  Fault fault = Fault::race;
  if (clash.with == Clash::With::nothing_written)
    fault = Fault::uninitialised_read;
  else if (clash.with == Clash::With::unfenced_write)
    fault = Fault::missing_fence;
  else if (writes && clash.with == Clash::With::read && agents_[clash.other.agent].role == Role::store_reads)
    fault = Fault::rewritten_source;
  const Site here = actor.mark.site, there = clash.other.site;
  if (!seen_.insert({fault, here.file, here.line, there.file, there.line}).second) return;

  std::string text = name_of(agents_[actor.mark.agent]) + (writes ? " writes " : " reads ") + "byte " +
                     std::to_string(clash.at) + " of " + memory + " (" + text_of(here) + "), which ";
  if (clash.with == Clash::With::nothing_written) {
    text += "nobody wrote";
  } else {
    text += name_of(agents_[clash.other.agent]) + (clash.with == Clash::With::read ? " reads" : " wrote") +
            " (" + text_of(there) + ")";
    text += clash.with == Clash::With::unfenced_write ? "; no fence for the async proxy is between"
                                                      : "; nothing orders the two";
  }
  found(fault, std::move(text));
}

}  // namespace fla::emulation
