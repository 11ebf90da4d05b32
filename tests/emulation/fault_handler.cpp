#include "tests/emulation/fault_handler.h"

namespace fla::emulation {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

void (*when_touched)(const void* address) = nullptr;

}  // namespace

FaultHandler::FaultHandler(void (*touched)(const void* address)) : stack_(kStackBytes) {
  when_touched = touched;
  stack_t stack{};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  sigaltstack(&stack, &stack_before_);
  Action action{};
  action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
    when_touched(info->si_addr);
    Action by_default{};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
  };
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &segv_before_);
  sigaction(SIGBUS, &action, &bus_before_);
}

FaultHandler::~FaultHandler() {
  sigaction(SIGSEGV, &segv_before_, nullptr);
  sigaction(SIGBUS, &bus_before_, nullptr);
  sigaltstack(&stack_before_, nullptr);
}

}  // namespace fla::emulation
