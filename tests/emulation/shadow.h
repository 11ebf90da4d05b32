#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tests/emulation/findings.h"
#include "tests/emulation/knowledge.h"

namespace fla::emulation {

/// An access: whose, when, and where in the source.
struct Mark {
  Agent agent = kNobody;
  Clock clock = 0;
  Site site{};
};

/// Who makes an access, and what he knows.
struct Actor {
  Mark mark;                                   ///< what is remembered of the access
  std::span<const Knowledge* const> known;     ///< of the threads behind it: all of them must know
  std::span<const Knowledge* const> fenced{};  ///< what they knew at their last fences for the async proxy
  Agent self = kNobody;                        ///< a thread whose own accesses come before this one anyway
  bool async = false;                          ///< through the async proxy
  mutable Mark
      in_order{};  ///< a write that this access was found to be in order with: neighbours have the same
};

/// What is wrong with an access.
struct Clash {
  enum class With : std::uint8_t { write, read, unfenced_write, nothing_written } with;
  std::size_t at;  ///< first byte
  Mark other;      ///< the access that it clashes with
};

/// The accesses that later ones must be ordered with, of every piece of a memory: the last write, and the
/// reads since.
class Shadow {
 public:
  /// `granule`: bytes that are watched as one. `written`: memory that has contents already.
  Shadow(std::size_t bytes, std::size_t granule, bool written)
      : granule_(granule), written_(written), places_((bytes + granule - 1) / granule) {}

  void clear() { places_.assign(places_.size(), {}); }
  std::optional<Clash> read(std::size_t at, std::size_t bytes, const Actor& actor, const Agents& agents);
  std::optional<Clash> write(std::size_t at, std::size_t bytes, const Actor& actor, const Agents& agents);

 private:
  struct Place {
    Mark written;
    Mark read;                // the last one
    std::vector<Mark> reads;  // others that it does not know of
  };
  std::optional<Clash::With> against_write(const Place& place, const Actor& actor,
                                           const Agents& agents) const;

  std::size_t granule_;
  bool written_;
  std::vector<Place> places_;
};

}  // namespace fla::emulation
