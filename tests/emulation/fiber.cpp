#include "tests/emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

// What a function must leave as it was is pushed on the stack that is left; the stack pointer is all there is
// of a fiber. ucontext's swapcontext would do the same with two system calls a switch, which a warp of 32
// cannot afford.
extern "C" void fla_emulation_switch(void** from, void* to);
extern "C" void fla_emulation_enter();

#if defined(__aarch64__)
asm(R"(
.text
.p2align 2
.hidden fla_emulation_switch
.globl fla_emulation_switch
.type fla_emulation_switch, %function
fla_emulation_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size fla_emulation_switch, . - fla_emulation_switch
.hidden fla_emulation_enter
.globl fla_emulation_enter
.type fla_emulation_enter, %function
fla_emulation_enter:
  mov x0, x20
  blr x19
  brk #0
.size fla_emulation_enter, . - fla_emulation_enter
)");
namespace {
constexpr std::size_t kFrame = 160, kBody = 0, kArgument = 8, kReturn = 88;
}
#elif defined(__x86_64__)
asm(R"(
.text
.p2align 4
.hidden fla_emulation_switch
.globl fla_emulation_switch
.type fla_emulation_switch, @function
fla_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fla_emulation_switch, . - fla_emulation_switch
.hidden fla_emulation_enter
.globl fla_emulation_enter
.type fla_emulation_enter, @function
fla_emulation_enter:
  movq %r12, %rdi
  callq *%r13
  ud2
.size fla_emulation_enter, . - fla_emulation_enter
)");
namespace {
// r13, r12 and the return address. After the return the stack pointer is a multiple of 16, as calls want it.
constexpr std::size_t kFrame = 56, kBody = 16, kArgument = 24, kReturn = 48;
}  // namespace
#else
#error \
    "fibers are written for aarch64 and x86_64; tests/emulation/CMakeLists.txt leaves these tests out elsewhere"
#endif

namespace fla::emulation {

namespace {
constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kGuardBytes = 64 * 1024;  // a multiple of every page size
}  // namespace

Stack::Stack() {
  void* const map = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED || mprotect(map, kGuardBytes, PROT_NONE) != 0) throw std::bad_alloc();
  map_ = static_cast<std::byte*>(map);
}
Stack::~Stack() { munmap(map_, kGuardBytes + kStackBytes); }
std::byte* Stack::end() const { return map_ + kGuardBytes + kStackBytes; }
bool Stack::is_guarded(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= map_ && at < map_ + kGuardBytes;
}

void Fiber::start(const Stack& stack, void (*body)(void*), void* argument) {
  std::byte* const frame = stack.end() - kFrame;
  std::memset(frame, 0, kFrame);
  void (*const enter)() = fla_emulation_enter;
  std::memcpy(frame + kBody, &body, sizeof body);
  std::memcpy(frame + kArgument, &argument, sizeof argument);
  std::memcpy(frame + kReturn, &enter, sizeof enter);
  stack_pointer_ = frame;
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  fla_emulation_switch(&from.stack_pointer_, to.stack_pointer_);
}

}  // namespace fla::emulation
