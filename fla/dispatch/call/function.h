#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/dispatch/call/erased.h"
#include "fla/dispatch/call/snapshot.h"
#include "fla/dispatch/call/thread_state.h"

namespace fla::dispatch {

/// An entry point, its types erased: what the registry, explain and plans know of it.
class FLA_API FunctionBase {
 public:
  /// What an entry point is, apart from its types.
  struct Description {
    std::string_view op, name;
    const std::type_info* signature;
    const std::type_info* args_type;
    std::size_t args_size;
    ArgumentTable arguments;
    void (*validate)(const void* args);
    const ErasedArgs* erased = nullptr;  ///< null: only callers who know the types can call it
    /// As operator() of Function does; null where `erased` is.
    void (*run)(const FunctionBase& function, const void* args, const ResultVisitor& visitor) = nullptr;
  };

  explicit FunctionBase(const Description& description);
  FunctionBase(const FunctionBase&) = delete;
  FunctionBase& operator=(const FunctionBase&) = delete;

  std::string_view op() const { return description_.op; }
  std::string_view name() const { return description_.name; }
  const Description& description() const { return description_; }
  /// Throws as a call with these arguments would before anybody is asked.
  void check(const void* args) const {
    if (description_.validate != nullptr) description_.validate(args);
  }

  /// The list that is in force for the calling thread now, with one use more of the hold on it.
  SnapshotHold& hold(const Snapshot*& snapshot) const {
    // The pointer is compared, and followed only when the thread holds it: what it holds it has got before,
    // and nothing else can lie there meanwhile. It is not read from the hold, which would come later.
    snapshot = snapshot_.load(std::memory_order_acquire);
    ThreadState& thread = thread_state;
    if (thread.scope == nullptr && index_ < thread.hold_count) [[likely]] {
      SnapshotHold& held = thread.holds[index_];
      if (held.snapshot == snapshot) [[likely]] {
        ++held.uses;
        return held;
      }
    }
    SnapshotHold& found = find_hold();
    snapshot = found.snapshot;
    return found;
  }

 protected:
  /// The original kernel's counter, and 1, when outside a ScopedPolicy there is neither candidate nor trace.
  std::uint32_t only_original() const { return only_original_.load(std::memory_order_relaxed); }

 private:
  friend class SnapshotStore;
  SnapshotHold& find_hold() const;

  Description description_;
  std::uint32_t index_;  ///< of ThreadState::holds
  mutable std::atomic<std::uint32_t> only_original_{0};
  mutable std::atomic<const Snapshot*> snapshot_{nullptr};  ///< null: has to be looked for
};

/// Ends a hold that was made for one use.
FLA_API void end_hold(SnapshotHold& hold) noexcept;

/// The list that is in force for the calling thread now, for as long as this object lives, on its thread.
class SnapshotUse {
 public:
  explicit SnapshotUse(const FunctionBase& function) : hold_(&function.hold(snapshot_)) {}
  /// Takes a hold's use over; null: somebody else has it.
  SnapshotUse(const Snapshot& snapshot, SnapshotHold* hold) : snapshot_(&snapshot), hold_(hold) {}
  SnapshotUse(SnapshotUse&& other) noexcept
      : snapshot_(other.snapshot_), hold_(std::exchange(other.hold_, nullptr)) {}
  SnapshotUse& operator=(SnapshotUse&&) = delete;
  ~SnapshotUse() { end(); }

  /// Before its time: the list is not looked at any more.
  void end() {
    if (hold_ != nullptr && --hold_->uses == SnapshotHold::kEnded) [[unlikely]]
      end_hold(*hold_);
    hold_ = nullptr;
  }

  const Snapshot& operator*() const { return *snapshot_; }
  const Snapshot* operator->() const { return snapshot_; }

 private:
  const Snapshot* snapshot_ = nullptr;
  SnapshotHold* hold_;
};

}  // namespace fla::dispatch
