#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>

namespace fla_test {

/// What became of a child process: "exit 0", "exit 3", "signal 14". A child that hangs is ended by SIGALRM.
inline std::string outcome_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return "lost";
  if (WIFEXITED(status)) return "exit " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));
}

/// fork(), and an alarm in the child.
inline pid_t fork_with_watchdog() {
  constexpr unsigned kWatchdogSeconds = 120;
  const pid_t child = ::fork();
  if (child == 0) ::alarm(kWatchdogSeconds);
  return child;
}

/// Forks and runs body() in the child, which exits with what body returns, or with 99 when it throws.
template <class Body>
pid_t start_child(Body&& body) {
  const pid_t child = fork_with_watchdog();
  if (child != 0) return child;
  int code = 99;
  try {
    code = body();
  } catch (const std::exception&) {
  }
  ::_exit(code);
}

template <class Body>
std::string outcome_in_child(Body&& body) {
  return outcome_of(start_child(body));
}

}  // namespace fla_test
