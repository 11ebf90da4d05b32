#include "tests/emulation/shadow.h"

#include <algorithm>

namespace fla::emulation {
namespace {

bool knows(const Actor& actor, Agent agent, Clock clock) {
  if (agent == actor.self) return true;
  return std::all_of(actor.known.begin(), actor.known.end(),
                     [&](const Knowledge* known) { return known->covers(agent, clock); });
}

bool knows(const Actor& actor, const Mark& mark) {
  return mark.agent == kNobody || mark.agent == actor.mark.agent || knows(actor, mark.agent, mark.clock);
}

/// Whether a fence for the async proxy is between the write and the actor: the writer's own, which the actor
/// knows of, or one by each thread behind the actor that knew of the write.
bool is_fenced(const Actor& actor, const Mark& write, const Agents& agents) {
  const std::vector<Clock>& fences = agents[write.agent].fences;
  const auto fence = std::lower_bound(fences.begin(), fences.end(), write.clock);
  if (fence != fences.end() && knows(actor, write.agent, *fence)) return true;
  return !actor.fenced.empty() &&
         std::all_of(actor.fenced.begin(), actor.fenced.end(),
                     [&](const Knowledge* known) { return known->covers(write.agent, write.clock); });
}

}  // namespace

std::optional<Clash::With> Shadow::against_write(const Place& place, const Actor& actor,
                                                 const Agents& agents) const {
  const Mark& write = place.written;
  if (write.agent == kNobody) return std::nullopt;
  if (write.agent == actor.in_order.agent && write.clock == actor.in_order.clock) return std::nullopt;
  if (!knows(actor, write)) return Clash::With::write;
  if (actor.async && agents[write.agent].role == Role::thread && !is_fenced(actor, write, agents))
    return Clash::With::unfenced_write;
  actor.in_order = write;
  return std::nullopt;
}

std::optional<Clash> Shadow::read(std::size_t at, std::size_t bytes, const Actor& actor,
                                  const Agents& agents) {
  std::optional<Clash> clash;
  for (std::size_t i = at / granule_; i * granule_ < at + bytes; ++i) {
    Place& place = places_[i];
    if (!clash) {
      if (place.written.agent == kNobody && !written_)
        clash = Clash{Clash::With::nothing_written, i * granule_, {}};
      else if (const auto with = against_write(place, actor, agents))
        clash = Clash{*with, i * granule_, place.written};
    }
    if (place.read.agent != actor.mark.agent && !knows(actor, place.read)) {
      std::erase_if(place.reads, [&](const Mark& m) { return m.agent == actor.mark.agent; });
      place.reads.push_back(place.read);
    } else if (!place.reads.empty() && knows(actor, place.reads.front())) {
      std::erase_if(place.reads, [&](const Mark& m) { return knows(actor, m); });
    }
    place.read = actor.mark;
  }
  return clash;
}

std::optional<Clash> Shadow::write(std::size_t at, std::size_t bytes, const Actor& actor,
                                   const Agents& agents) {
  std::optional<Clash> clash;
  for (std::size_t i = at / granule_; i * granule_ < at + bytes; ++i) {
    Place& place = places_[i];
    if (!clash) {
      // Who knows of a read since the last write knows that it came after that.
      const bool is_after_a_read = place.read.agent != kNobody && knows(actor, place.read);
      const auto with = against_write(place, actor, agents);
      if (with && !(*with == Clash::With::write && is_after_a_read))
        clash = Clash{*with, i * granule_, place.written};
      if (!knows(actor, place.read)) clash = Clash{Clash::With::read, i * granule_, place.read};
      for (const Mark& read : place.reads)
        if (!clash && !knows(actor, read)) clash = Clash{Clash::With::read, i * granule_, read};
    }
    place.read = {};
    place.reads.clear();
    place.written = actor.mark;
  }
  return clash;
}

}  // namespace fla::emulation
