#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "fla/core/thread_end.h"
#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/choice/snapshots.h"
#include "fla/dispatch/registry/policies.h"
#include "fla/dispatch/settings/layers.h"

/// What keeps snapshots alive: each thread holds the last one that it used of every function, and a
/// ScopedPolicy those that were used under it. A hold that is in use, by a call that this one is nested in,
/// stays as it is; the nested call then gets a hold of its own.
namespace fla {
namespace dispatch {
namespace {

// What is held at first: no function's snapshot_ ever points there, as it may to null.
constinit const char nothing = 0;
const Snapshot* held_at_first() { return reinterpret_cast<const Snapshot*>(&nothing); }

/// The holds of a thread, by function.
class Holds {
 public:
  /// Null while there is no room for it that could be made.
  SnapshotHold* of(std::uint32_t index) {
    if (index >= holds_.size() && !grow(index)) return nullptr;
    return &holds_[index];
  }

  /// Takes hold of another; gives back the one before. The hold must not be in use.
  void take(std::uint32_t index, SharedSnapshot& snapshot) {
    holds_[index].snapshot = snapshot.get();
    owners_[index].swap(snapshot);
  }

 private:
  bool grow(std::uint32_t index) {
    // Whoever uses one points to it.
    if (std::ranges::any_of(holds_, [](const SnapshotHold& hold) { return hold.uses > 0; })) return false;
    constexpr std::size_t kMore = 16;
    owners_.resize(index + kMore);
    holds_.resize(index + kMore, {.snapshot = held_at_first()});
    thread_state.holds = holds_.data();
    thread_state.hold_count = static_cast<std::uint32_t>(holds_.size());
    return true;
  }

  std::vector<SnapshotHold> holds_;
  std::vector<SharedSnapshot> owners_;
};
constinit thread_local Holds* holds = nullptr;  // no object with a destructor: calls may come after that

void end_holds() {
  thread_state.holds = nullptr;
  thread_state.hold_count = 0;
  delete std::exchange(holds, nullptr);  // a backend that goes with them may call, and make new ones
}

Holds& holds_of_thread() {
  if (holds == nullptr) {
    holds = new Holds;
    at_thread_end(end_holds);
  }
  return *holds;
}

/// A hold for one use.
struct SingleHold : SnapshotHold {
  explicit SingleHold(SharedSnapshot given)
      : SnapshotHold{given.get(), kEnded + 1}, owner(std::move(given)) {}
  SharedSnapshot owner;
};

SnapshotHold& used(SnapshotHold& hold) {
  ++hold.uses;
  return hold;
}

/// A ScopedPolicy's frame with the holds of the calls under it. All frames of threads are of this type.
struct HoldingFrame : ScopedPolicy::Frame {
  HoldingFrame(Frame* outer, const Policy& its) : Frame{outer, its} {}

  struct Known {
    const FunctionBase* function;
    std::uint64_t generation = 0;
    SharedSnapshot snapshot{};
    SnapshotHold hold{};
  };
  std::list<Known> known;  // a hold stays where it is
};

HoldingFrame* holding(ScopedPolicy::Frame* frame) { return static_cast<HoldingFrame*>(frame); }

// Frames that ended while a call under them was under way: a listener of a breaker's may end one.
constinit thread_local ScopedPolicy::Frame* still_used = nullptr;

bool is_used(const HoldingFrame& frame) {
  return std::ranges::any_of(frame.known, [](const auto& known) { return known.hold.uses > 0; });
}

void end_frame(HoldingFrame* frame) {
  for (ScopedPolicy::Frame** place = &still_used; *place != nullptr;) {
    if (is_used(*holding(*place))) {
      place = &(*place)->parent;
    } else {
      delete holding(std::exchange(*place, (*place)->parent));
    }
  }
  if (!is_used(*frame)) {
    delete frame;
  } else {
    frame->parent = std::exchange(still_used, frame);
  }
}

}  // namespace

void end_hold(SnapshotHold& hold) noexcept { delete static_cast<SingleHold*>(&hold); }

SnapshotHold& FunctionBase::find_hold() const {
  if (HoldingFrame* scope = holding(thread_state.scope)) {
    const std::uint64_t now = generation();
    auto known = std::ranges::find(scope->known, this, &HoldingFrame::Known::function);
    if (known != scope->known.end() && known->generation == now) return used(known->hold);
    SharedSnapshot found = snapshot_of(*this);
    if (known == scope->known.end()) known = scope->known.insert(known, {.function = this});
    if (known->hold.uses > 0) return *new SingleHold(std::move(found));
    known->generation = now;
    known->hold.snapshot = found.get();
    known->snapshot.swap(found);
    return used(known->hold);
  }
  SharedSnapshot found = snapshot_of(*this);
  Holds& mine = holds_of_thread();
  SnapshotHold* hold = mine.of(index_);
  if (hold == nullptr || hold->uses > 0) return *new SingleHold(std::move(found));
  used(*hold);  // a backend that goes with the one before may call
  mine.take(index_, found);
  return *hold;
}

}  // namespace dispatch

ScopedPolicy::ScopedPolicy(const Policy& policy) {
  dispatch::check_scoped(policy);
  frame_ = new dispatch::HoldingFrame(dispatch::thread_state.scope, policy);
  dispatch::thread_state.scope = frame_;
}

ScopedPolicy::~ScopedPolicy() {
  dispatch::thread_state.scope = frame_->parent;
  dispatch::end_frame(dispatch::holding(frame_));
}

}  // namespace fla
