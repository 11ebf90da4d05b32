#pragma once

#include <cstddef>

namespace fla::emulation {

/// Memory for a fiber, with pages below it that fault.
class Stack {
 public:
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  std::byte* end() const;
  bool is_guarded(const void* address) const;  ///< one of the pages below

 private:
  std::byte* map_;
};

/// A place in the program with a stack of its own, to be left in the middle of a function and returned to.
/// Fibers of one thread alone, and nothing on their stacks is ever unwound: a fiber that is not returned to
/// simply ends.
class Fiber {
 public:
  Fiber() = default;  ///< the program's own stack, when it is left first
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls body(argument) on the stack. body must not return.
  void start(const Stack& stack, void (*body)(void*), void* argument);

  /// Leaves `from`, which is running, for `to`.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  void* stack_pointer_ = nullptr;
};

}  // namespace fla::emulation
