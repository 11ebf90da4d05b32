#include "fla/distributed/mpi.h"

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/distributed/watch.h"

namespace fla::distributed {
namespace {

std::string words_of(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(error, text.data(), &length) != MPI_SUCCESS) return "error " + std::to_string(error);
  return {text.data(), static_cast<std::size_t>(length)};
}

/// A communicator of our own, with errors that are returned.
class Communicator {
 public:
  explicit Communicator(MPI_Comm from) {
    if (const int error = MPI_Comm_dup(from, &handle_); error != MPI_SUCCESS)
      throw BackendError("MPI_Comm_dup: " + words_of(error), BackendError::Wrote::nothing);
    MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    int finalized = 0;
    if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0 && !abandoned_) MPI_Comm_free(&handle_);
  }

  MPI_Comm handle() const { return handle_; }
  /// Something may still be under way in it.
  void abandon() { abandoned_ = true; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
  bool abandoned_ = false;
};

/// What MPI may still read and write after a time limit. Never freed.
struct Exchange {
  Tensor mine, all;
  std::vector<int> counts, starts;
  MPI_Request request = MPI_REQUEST_NULL;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm from, const MpiOptions& options) : options_(options), blocks_(from), notices_(from) {
    MPI_Comm_rank(blocks_.handle(), &rank_);
    MPI_Comm_size(blocks_.handle(), &ranks_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Tensor all_gather(Tensor mine, std::span<const std::int64_t> counts, Stream) override {
    if (!failed_.empty()) throw BackendError(failed_, BackendError::Wrote::nothing);
    auto exchange = std::make_unique<Exchange>();
    exchange->mine = std::move(mine);
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
      exchange->counts.push_back(static_cast<int>(count));
      exchange->starts.push_back(static_cast<int>(total));
      total += count;
    }
    if (total > std::numeric_limits<int>::max())
      fail("expected at most 2^31 - 1 floats from all ranks, got " + std::to_string(total));
    exchange->all = Tensor::empty({total}, DType::f32);
    std::string error;
    const auto is_fine = [&](int result) {
      if (result != MPI_SUCCESS) error = "MPI_Iallgatherv: " + words_of(result);
      return result == MPI_SUCCESS;
    };
    if (is_fine(MPI_Iallgatherv(exchange->mine.data(), static_cast<int>(exchange->mine.numel()), MPI_FLOAT,
                                exchange->all.data(), exchange->counts.data(), exchange->starts.data(),
                                MPI_FLOAT, blocks_.handle(), &exchange->request))) {
      const bool ended = wait(options_.time_limit, [&] {
        int flag = 0;
        return !is_fine(MPI_Test(&exchange->request, &flag, MPI_STATUS_IGNORE)) || flag != 0;
      });
      if (ended && error.empty()) return std::move(exchange->all);
    }
    blocks_.abandon();
    exchange.release();  // NOLINT(bugprone-unused-return-value): MPI has it for good
    // After an error others may still be waiting for their own time limit.
    const Watch::Duration longest = error.empty() ? options_.time_limit : 2 * options_.time_limit;
    fail(why_it_failed(error, missing_ranks(longest), options_.time_limit));
  }

 private:
  /// Calls until it says yes; no: the time is over.
  template <class Done>
  static bool wait(Watch::Duration limit, Done&& done) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int turn = 0; !done(); ++turn) {
      if (Clock::now() - begin > limit) return false;
      if (turn < 1000) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    return true;
  }

  // NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): nobody waits for it
  void tell(int other, const char& word) {
    MPI_Request sent = MPI_REQUEST_NULL;
    if (MPI_Isend(&word, 1, MPI_CHAR, other, 0, notices_.handle(), &sent) == MPI_SUCCESS)
      (void)MPI_Request_free(&sent);
  }
  // NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

  /// Ranks whose exchange has failed tell each other so. Those that say nothing, or cannot be told, are
  /// missing.
  std::vector<int> missing_ranks(Watch::Duration limit) {
    notices_.abandon();
    const auto others = static_cast<std::size_t>(ranks_);
    auto* const said = new std::vector<char>(others + 1);  // for good, like their requests
    std::vector<MPI_Request> heard(others, MPI_REQUEST_NULL);
    std::vector<bool> missing(others, true);
    missing[static_cast<std::size_t>(rank_)] = false;
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      const auto at = static_cast<std::size_t>(other);
      if (MPI_Irecv(&(*said)[at], 1, MPI_CHAR, other, 0, notices_.handle(), &heard[at]) == MPI_SUCCESS)
        tell(other, said->back());
    }
    (void)wait(limit, [&] {
      bool all = true;
      for (std::size_t other = 0; other < others; ++other) {
        if (heard[other] == MPI_REQUEST_NULL) continue;
        int flag = 0;
        const bool is_fine = MPI_Test(&heard[other], &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        if (is_fine && flag != 0) missing[other] = false;
        if (!is_fine) heard[other] = MPI_REQUEST_NULL;
        all = all && (!is_fine || flag != 0);
      }
      return all;
    });
    std::vector<int> ranks;
    for (int other = 0; other < ranks_; ++other) {
      if (missing[static_cast<std::size_t>(other)]) ranks.push_back(other);
    }
    return ranks;
  }

  [[noreturn]] void fail(const std::string& why) {
    failed_ = "fla::distributed on rank " + std::to_string(rank_) + ": " + why;
    throw BackendError(failed_, BackendError::Wrote::nothing);
  }

  MpiOptions options_;
  Communicator blocks_, notices_;
  int rank_ = 0, ranks_ = 1;
  std::string failed_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm communicator, const MpiOptions& options) {
  return std::make_unique<MpiTransport>(communicator, options);
}

}  // namespace fla::distributed
