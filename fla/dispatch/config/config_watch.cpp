#include "fla/dispatch/config/config_watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/core/path_walk.h"
#include "fla/dispatch/config/config_change.h"
#include "fla/dispatch/config/config_file.h"
#include "fla/dispatch/config/config_target.h"
#include "fla/dispatch/lock_order.h"

namespace fla::dispatch {
namespace {

constexpr int kRetryMs = 1000;  // a folder that is gone may come back
constexpr int kSettleMs = 50;   // what is done to a file can be seen a moment before it is told of

/// A file descriptor that is closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

/// Says when a file may have changed. The kernel tells about folders: every one in which a name is looked up
/// on the way to the file is watched, so that a link or a folder that is switched is seen, and what is behind
/// it from then on.
class FileEvents {
 public:
  explicit FileEvents(std::filesystem::path file)
      : file_(std::move(file)), inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (inotify_.number() < 0) throw std::system_error(errno, std::generic_category());
    watch_folders();
  }

  int descriptor() const { return inotify_.number(); }
  void close() { inotify_.close(); }

  /// Whether every folder is being watched; otherwise somebody has to look again.
  bool complete() const { return complete_; }

  struct News {
    bool changed = false;  ///< something happened to the file, or to the way that leads to it
    bool moved = false;    ///< … or to a folder on that way, by another name
  };

  /// Takes all events that have come in.
  News take() {
    News news;
    alignas(inotify_event) std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t got = ::read(inotify_.number(), buffer.data(), buffer.size());
      if (got <= 0) break;
      for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        note(*event, event->len > 0 ? event->name : "", news);
        at += sizeof(inotify_event) + event->len;
      }
    }
    return news;
  }

  /// Whether somebody has begun to write into the file and has not closed it yet.
  bool being_written() const { return being_written_; }

  /// Follows links that lead elsewhere by now, and folders that are there again.
  void watch_folders() {
    std::vector<Folder> before = std::move(folders_);
    // A link that is switched before its folder is watched leads elsewhere when it is looked at again.
    for (int tries = 0; tries < 3; ++tries) {
      folders_.clear();
      complete_ = true;
      for (const Lookup& lookup : way_to(file_)) watch(lookup);
      if (std::ranges::equal(way_to(file_), folders_, [](const Lookup& now, const Folder& then) {
            return now.folder == then.path && now.name == then.name;
          }))
        break;
      before.insert(before.end(), folders_.begin(), folders_.end());
      complete_ = false;
    }
    for (const Folder& old : before) {
      if (old.watch >= 0 && std::ranges::find(folders_, old.watch, &Folder::watch) == folders_.end())
        ::inotify_rm_watch(inotify_.number(), old.watch);
    }
  }

 private:
  struct Folder {
    std::filesystem::path path;
    std::string name;
    bool is_files;  ///< the name is that of the file itself
    int watch;
  };

  void watch(const Lookup& lookup) {
    constexpr std::uint32_t kOfNames =
        IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    const bool is_files = lookup.is_last && !lookup.is_link();
    // A folder may be on the way twice.
    const std::uint32_t events = kOfNames | IN_MASK_ADD | (is_files ? IN_CLOSE_WRITE | IN_MODIFY : 0);
    const int number = ::inotify_add_watch(inotify_.number(), lookup.folder.c_str(), events);
    folders_.push_back({lookup.folder, lookup.name, is_files, number});
    // Folders far above may be closed to us; they are seldom switched.
    const bool matters = lookup.is_last || lookup.is_link() || lookup.error != 0;
    complete_ = complete_ && (number >= 0 || !matters);
  }

  void note(const inotify_event& event, const char* name, News& news) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) {  // who knows what it was
      being_written_ = false;
      news.changed = true;
      return;
    }
    if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0) {
      news.moved = true;
      return;
    }
    for (const Folder& folder : folders_) {
      if (folder.watch != event.wd || folder.name != name) continue;
      news.changed = true;
      if (folder.is_files && (event.mask & IN_MODIFY) != 0) {
        being_written_ = true;
      } else if (!folder.is_files || (event.mask & IN_CREATE) == 0) {
        being_written_ = false;
      }
    }
  }

  std::filesystem::path file_;
  Descriptor inotify_;
  std::vector<Folder> folders_;
  bool complete_ = false;
  bool being_written_ = false;
};

/// Tells one file from another that took its place.
struct Signature {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = -1;
  std::int64_t seconds = 0, nanoseconds = 0;

  friend bool operator==(const Signature&, const Signature&) = default;

  static Signature of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }
};

/// One file that is followed by one thread.
class Watch {
 public:
  Watch(std::string path, std::string file)
      : path_(std::move(path)),
        file_(std::move(file)),
        process_(::getpid()),
        events_(file_),
        end_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (end_.number() < 0) throw std::system_error(errno, std::generic_category());
  }

  const std::string& path() const { return path_; }
  const std::string& file() const { return file_; }
  /// Whether its thread belongs to this process, and not to the one that this was forked from.
  bool is_ours() const { return process_ == ::getpid(); }

  void end() {
    const std::uint64_t one = 1;
    (void)!::write(end_.number(), &one, sizeof one);
  }

  /// Of a watch whose thread a fork left behind: it would hold these for ever.
  void close() {
    events_.close();
    end_.close();
  }

  void run() {
    bool look = true;  // between the first reading and now it may have changed
    for (;;) {
      if (look && !events_.being_written()) look = !follow();
      const bool at_once = look && !events_.being_written();
      std::array<pollfd, 2> waiting{pollfd{events_.descriptor(), POLLIN, 0},
                                    pollfd{end_.number(), POLLIN, 0}};
      const bool again_soon = !events_.complete();
      const int patience = at_once ? 0 : again_soon ? kRetryMs : -1;
      if (::poll(waiting.data(), waiting.size(), patience) < 0 && errno != EINTR) return;
      if (waiting[1].revents != 0) return;
      if (again_soon) events_.watch_folders();
      if (has_news() || (again_soon && Signature::of(file_) != seen_)) look = true;
    }
  }

 private:
  /// Whether something may have happened to the file since it was looked at.
  bool has_news() {
    const FileEvents::News news = events_.take();
    if (news.changed || news.moved) events_.watch_folders();
    told_ = told_ || news.changed;
    return news.changed || (news.moved && Signature::of(file_) != seen_);
  }

  /// Whether no event for the file arrives for kSettleMs. Events for other files do not end the wait.
  bool stays_quiet() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(kSettleMs);
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      pollfd waiting{events_.descriptor(), POLLIN, 0};
      const bool over = left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0;
      if (has_news()) return false;
      if (over) return true;
    }
  }

  /// Reads the file and does with it what has to be done. False when it changed meanwhile: what was read may
  /// be half of it.
  bool follow() {
    seen_ = Signature::of(file_);
    std::shared_ptr<Configuration> next;
    try {
      const auto before = config_target().in_force();
      if (before == nullptr || before->file != file_) return true;  // somebody is about to end this
      std::string problem;
      try {
        next = std::make_shared<Configuration>(read_configuration(file_, path_));
      } catch (const ConfigError& error) {
        problem = error.what();
      }
      if (has_news()) return false;
      // Somebody may have emptied it just now, to write into it.
      const bool is_other = next == nullptr || next->text != before->text;
      const bool is_doubtful = !told_ || (next != nullptr && next->text.empty());
      if (is_other && is_doubtful) {
        if (!stays_quiet()) return false;
        if (config_target().in_force() != before) return true;  // that was read later
      }
      told_ = false;
      if (next == nullptr) throw ConfigError(problem);
      if (next->text == before->text) {
        forget_refusal();
      } else {
        apply_configuration(next);
      }
    } catch (const std::exception& error) {
      report_refused(path_, next.get(), error.what());
    }
    return true;
  }

  std::string path_, file_;
  pid_t process_;
  FileEvents events_;
  Descriptor end_;
  Signature seen_;
  bool told_ = false;  // of what is about to be read
};

constinit std::mutex watch_mutex;
const bool guarded = (guard_against_fork(LockOrder::config_watch, watch_mutex), true);

/// The watch that is under way.
std::shared_ptr<Watch>& current() {
  static auto& watch = *new std::shared_ptr<Watch>;
  return watch;
}

/// Signals are the program's own: none is handled on this thread.
void start_thread(const std::shared_ptr<Watch>& watch) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([watch] {
      ::pthread_setname_np(::pthread_self(), "fla-config");
      watch->run();
    }).detach();
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

std::shared_ptr<const Configuration> prepare_configuration(const std::string& path) {
  if (path.empty()) return nullptr;
  try {
    auto read = std::make_shared<Configuration>(read_configuration(path));
    read->named_by = "FLA_CONFIG: ";
    return read;
  } catch (const ConfigError& error) {
    throw ConfigError(std::string("FLA_CONFIG: ") + error.what());
  }
}

void watch_configuration(const std::string& path) {
  const std::lock_guard lock(watch_mutex);
  std::shared_ptr<Watch>& watch = current();
  std::string file;
  if (!path.empty()) {
    std::error_code error;
    file = std::filesystem::absolute(path, error).string();
    if (error) file = path;
  }
  if (watch != nullptr && watch->is_ours()) {
    if (watch->path() == path && watch->file() == file) return;
    watch->end();
  } else if (watch != nullptr) {
    watch->close();
  }
  watch.reset();
  if (path.empty()) return;
  try {
    auto next = std::make_shared<Watch>(path, file);
    start_thread(next);
    watch = std::move(next);
  } catch (const std::system_error& error) {
    log(spdlog::level::warn,
        "[FLA Config] " + path + " cannot be watched: " + error.what() + "; reload_config() reads it again");
  }
}

}  // namespace fla::dispatch
