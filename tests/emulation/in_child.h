#pragma once

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

namespace fla::emulation {

/// What came of a question that was put in a process of its own.
struct ChildAnswer {
  std::optional<bool> answer{};  ///< none when the process ended before it knew
  std::string end{};             ///< how it ended then
};

/// Answers in a child: a kernel that read garbage may write anywhere, or never end. A child that crashed or
/// used up its CPU time has answered nothing. CPU time, so that a busy machine changes no answer.
template <class Question>
ChildAnswer in_child(const Question& question, double cpu_seconds = 20) {
  constexpr int kNo = 100, kYes = 101;  // no code that a library exits with
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("no process: ") + std::strerror(errno));
  if (child == 0) {
    const auto whole = static_cast<time_t>(cpu_seconds);
    const itimerval limit{
        {}, {whole, static_cast<suseconds_t>(1e6 * (cpu_seconds - static_cast<double>(whole)))}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    _exit(question() ? kYes : kNo);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child)
    throw std::runtime_error(std::string("no child: ") + std::strerror(errno));
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == kNo || code == kYes) return {.answer = code == kYes};
    return {.end = "exited with " + std::to_string(code)};
  }
  if (WTERMSIG(status) == SIGPROF) return {.end = "did not end in time"};
  return {.end = std::string("was ended by a signal: ") + strsignal(WTERMSIG(status))};
}

}  // namespace fla::emulation
