#pragma once

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fla::testing {

struct Outcome {
  int code = -1;   ///< -1 when a signal ended it
  int signal = 0;  ///< that one
  std::string out, err;
};

/// How a program is run: extra variables on top of this process's, none of whose FLA_* it sees, whether its
/// standard error is a terminal, and as which user, which root alone can choose.
struct Setting {
  std::map<std::string, std::string> variables{};
  bool terminal = false;
  std::optional<unsigned> user{};
  /// With root's rights nevertheless: user is the real one, root the effective and the saved one, as in a
  /// set-user-ID program. That bit of a file would do the same, but also let the kernel randomise addresses
  /// again, which ThreadSanitizer answers by starting the program once more, for ever.
  bool raised = false;
};

namespace detail {

inline std::vector<std::string> environment_for(const Setting& setting) {
  std::vector<std::string> list;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("FLA_")) list.emplace_back(*each);
  }
  // AddressSanitizer looks for leaks for seconds at the end of every process; these are too many for that.
  if (std::getenv("ASAN_OPTIONS") == nullptr) list.emplace_back("ASAN_OPTIONS=detect_leaks=0");
  for (const auto& [name, value] : setting.variables) list.push_back(name + "=" + value);
  return list;
}

inline std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

inline bool become(unsigned user, bool raised) {
  const unsigned effective = raised ? 0 : user;
  return ::setgroups(0, nullptr) == 0 && ::setgid(user) == 0 && ::setresuid(user, effective, effective) == 0;
}

/// {read end, write end}
inline std::array<int, 2> open_channel(bool terminal) {
  std::array<int, 2> ends{-1, -1};
  if (!terminal) {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    return ends;
  }
  ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[0] < 0 || ::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0)
    throw std::runtime_error("no terminal");
  std::array<char, 128> name{};
  if (::ptsname_r(ends[0], name.data(), name.size()) != 0) throw std::runtime_error("no terminal");
  ends[1] = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[1] < 0) throw std::runtime_error("no terminal");
  return ends;
}

}  // namespace detail

/// Whether this machine gives out terminals; a bare root folder without /dev/pts does not.
inline bool has_terminals() {
  try {
    for (const int end : detail::open_channel(true)) ::close(end);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

/// Runs words[0] with the other words and waits for its end. Standard input is empty.
inline Outcome run_program(std::vector<std::string> words, const Setting& setting = {}) {
  std::vector<std::string> variables = detail::environment_for(setting);
  const std::vector<char*> arguments = detail::pointers(words), environment = detail::pointers(variables);
  const std::array<int, 2> out = detail::open_channel(false), err = detail::open_channel(setting.terminal);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    const bool is_other = !setting.user || detail::become(*setting.user, setting.raised);
    if (is_other) ::execve(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Outcome outcome;
  std::array<pollfd, 2> waiting{pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t got = ::read(waiting[i].fd, buffer.data(), buffer.size());
      if (got > 0) {
        (i == 0 ? outcome.out : outcome.err).append(buffer.data(), static_cast<std::size_t>(got));
      } else {  // the end; a terminal says it with an error
        ::close(waiting[i].fd);
        waiting[i].fd = -1;
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return outcome;
}

#ifdef FLA_COMMAND
/// `fla` with these words.
inline Outcome fla(std::vector<std::string> words, const Setting& setting = {}) {
  words.insert(words.begin(), FLA_COMMAND);
  return run_program(std::move(words), setting);
}
#endif

inline std::string golden(const std::string& name) {
  return std::string(FLA_GOLDEN_DIR) + "/" + name + ".safetensors";
}

}  // namespace fla::testing
