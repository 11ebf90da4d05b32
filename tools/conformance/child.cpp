#include "tools/conformance/child.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <system_error>

namespace fla::conformance {
namespace {

enum class Tag : char { doing = 'd', sent = 's', error = 'e' };

int pipe_to_parent = -1;  // of a child

/// One message: its tag, its length, its bytes.
void send(Tag tag, std::string_view text) {
  std::string message(1, static_cast<char>(tag));
  const auto length = static_cast<std::uint64_t>(text.size());
  message.append(reinterpret_cast<const char*>(&length), sizeof length);
  message += text;
  for (std::string_view rest = message; !rest.empty();) {
    const ssize_t written = ::write(pipe_to_parent, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

struct Heard {
  std::string messages;
  bool ended = true;  ///< the other end is closed
};
Heard read_all(int pipe, int silence) {
  std::string all;
  std::array<char, 65536> block{};
  for (;;) {
    pollfd readable{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, 1000 * silence);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return {all, false};
    const ssize_t count = ::read(pipe, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {all, true};
    all.append(block.data(), static_cast<std::size_t>(count));
  }
}

/// Of what a child that died has begun to send, whole messages alone.
ChildOutcome outcome_of(std::string_view messages) {
  ChildOutcome outcome;
  constexpr std::size_t header = 1 + sizeof(std::uint64_t);
  while (messages.size() >= header) {
    std::uint64_t length = 0;
    std::memcpy(&length, messages.data() + 1, sizeof length);
    if (messages.size() - header < length) break;
    std::string text(messages.substr(header, length));
    switch (static_cast<Tag>(messages[0])) {
      case Tag::doing: outcome.doing = std::move(text); break;
      case Tag::sent: outcome.sent = std::move(text); break;
      case Tag::error: outcome.error = std::move(text); break;
    }
    messages.remove_prefix(header + length);
  }
  return outcome;
}

[[noreturn]] void run_child(const std::function<std::string()>& body) {
  try {
    send(Tag::sent, body());
  } catch (const std::exception& error) {
    send(Tag::error, error.what());
  } catch (...) {
    send(Tag::error, "an exception that is no std::exception");
  }
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(0);
}

std::string death_of(int status, bool done) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  if (WEXITSTATUS(status) == 0 && done) return "";
  return "ended the process with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

void note_progress(std::string_view doing) {
  if (pipe_to_parent >= 0) send(Tag::doing, doing);
}

ChildOutcome in_child(const std::function<std::string()>& body, int silence) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "making a pipe");
  std::cout.flush();  // or the child would write it again
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw std::system_error(error, std::generic_category(), "making a child process");
  }
  if (child == 0) {
    ::close(ends[0]);
    pipe_to_parent = ends[1];
    run_child(body);
  }
  ::close(ends[1]);
  const Heard heard = read_all(ends[0], silence);
  ::close(ends[0]);
  if (!heard.ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ChildOutcome outcome = outcome_of(heard.messages);
  outcome.death = heard.ended ? death_of(status, !outcome.sent.empty() || !outcome.error.empty())
                              : "did nothing for " + std::to_string(silence) + " s";
  return outcome;
}

bool uses_cuda() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  constexpr int not_initialized = 3;  // CUDA_ERROR_NOT_INITIALIZED
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  const bool used = count != nullptr && count(&devices) != not_initialized;
  ::dlclose(driver);
  return used;
}

}  // namespace fla::conformance
