#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace fla::distributed {

/// An exchange on a stream, as the thread that watches it asks.
class UnderWay {
 public:
  UnderWay() = default;
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  virtual ~UnderWay();
  virtual bool begun() = 0;  ///< what was on the stream before it is done
  virtual bool done() = 0;
};

/// Holds exchanges to a time limit, and a communicator to its errors, on a thread of its own: whoever waits
/// for a stream would wait for ever. Functions may be called on any thread.
class Watch {
 public:
  using Duration = std::chrono::duration<double>;

  /// What is watched. Called on the thread of the watch, all but `begin` also on those of the functions
  /// below; never two `error` at once, and none after `abort`.
  struct Watched {
    int rank = 0;
    std::function<void()> begin;                      ///< before anything else; may be empty
    std::function<std::string()> error;               ///< of the communicator; empty when there is none
    std::function<void()> abort;                      ///< ends what is under way; once, at the first failure
    std::function<std::vector<int>()> missing_ranks;  ///< once, before `abort`; may be empty
  };
  Watch(Watched watched, Duration limit);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  /// The time limit begins when the exchange has begun.
  void add(std::unique_ptr<UnderWay> exchange);
  /// An error that the caller found itself; one that was found before stays.
  void fail(const std::string& why);
  /// Throws BackendError, the same one every time, once anything has failed.
  void check();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::unique_ptr<UnderWay> exchange;
    Clock::time_point begin{};  ///< the epoch until it has begun
  };

  void run();
  bool too_late(Clock::time_point now);
  /// Returns when failure_ is there, whoever found it. No words: the time limit.
  void fail(std::unique_lock<std::mutex>& lock, const std::string& why);

  const Watched watched_;
  const Duration limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> exchanges_;
  std::string failure_;
  bool failing_ = false, ended_ = false;
  std::thread thread_;
};

/// "rank 3 did not come to the exchange within 60.000000 s", without ranks "the exchange took more than …";
/// with an error, that and "; rank 3 did not come", where there are ranks.
std::string why_it_failed(const std::string& error, std::span<const int> missing, Watch::Duration limit);

}  // namespace fla::distributed
