#include "fla/dispatch/call/dispatch.h"

#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/dispatch/lock_order.h"
#include "fla/dispatch/rules/condition.h"

namespace fla::dispatch {
namespace {

constinit std::mutex messages_mutex;
const bool messages_guarded = (guard_against_fork(LockOrder::messages, messages_mutex), true);

/// A copy of the message that lives for ever, as verdicts want it. After so many different ones, a general
/// word.
const char* intern(const char* message) {
  constexpr std::size_t kMost = 256;
  static auto& messages = *new std::set<std::string>;
  const std::lock_guard lock(messages_mutex);
  if (const auto found = messages.find(message); found != messages.end()) return found->c_str();
  return messages.size() < kMost ? messages.emplace(message).first->c_str() : "an exception";
}

std::string full_name(const FunctionBase& function) {
  return std::string(function.op()) + "." + std::string(function.name());
}

}  // namespace

Verdict verifier_failed(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const std::exception& error) {
    return Verdict::failure(intern(error.what()));
  } catch (...) {
    return Verdict::failure("an exception of unknown type");
  }
}

Verdict ask_twice(const Candidate& candidate, const void* args, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(args);
  const std::vector<std::byte> before(bytes, bytes + size);
  const Verdict first = ask(candidate, args);
  const Verdict second = ask(candidate, args);
  if (std::memcmp(before.data(), bytes, size) != 0)
    return Verdict::failure("it is not pure: it changed the arguments");
  if (!(first == second)) return Verdict::failure("it is not pure: asked twice, it gave two answers");
  return first;
}

const Snapshot& choose_by_rules(const Snapshot& snapshot, const void* args) noexcept {
  const int rule = snapshot.decision->first(args);
  return rule < 0 ? snapshot : *snapshot.by_rule[rule];
}

void raise_required(const FunctionBase& function, const Snapshot& snapshot, const void* args) {
  std::string why = snapshot.required_out;
  if (snapshot.begin != snapshot.end) why = "refused: " + ask(*snapshot.begin, args).reason();
  throw BackendError(full_name(function) + ": backend " + snapshot.required + " is required and " + why,
                     BackendError::Wrote::nothing);
}

void handle_failure(const FunctionBase& function, const Snapshot& snapshot, const Candidate& candidate,
                    Breaker::Trial trial, std::exception_ptr exception) {
  const std::string who =
      full_name(function) + ": backend " + std::string(candidate.backend->info().name) + " failed";
  const auto failed = [&](const std::string& why, bool goes_on, bool for_good = false) {
    count_failure(candidate, goes_on);
    candidate.breaker->failed(snapshot.breaker, why, for_good, trial);
  };
  const auto pass_on = [&] {
    count_failure(candidate, false);
    if (trial != 0) candidate.breaker->abandoned(trial);
  };
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const DeviceLost& error) {
    failed(error.what(), false, true);
    throw;
  } catch (const BackendError& error) {
    const bool goes_on = snapshot.fall_back && error.wrote() == BackendError::Wrote::nothing;
    failed(error.what(), goes_on);
    if (!goes_on) throw;
    log(spdlog::level::warn, "[FLA Backend] " + who + ", the call goes on: " + error.what());
  } catch (const Error&) {  // about the call, not about the backend
    pass_on();
    throw;
  } catch (const std::bad_alloc&) {  // about the machine
    pass_on();
    throw;
  } catch (const std::exception& error) {
    failed(error.what(), false);
    std::throw_with_nested(BackendError(who + ": " + error.what()));
  } catch (...) {
    failed("an exception of unknown type", false);
    std::throw_with_nested(BackendError(who + ": an exception of unknown type"));
  }
}

}  // namespace fla::dispatch
