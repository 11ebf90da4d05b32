#include "tests/dispatch/config/stress.h"

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/config/config.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/config/ruled.h"

namespace fla_test {
namespace {

constexpr int kKinds = 4;  // of files

/// Who was asked in the call that this thread makes, as the digits of a number.
thread_local int asked = 0;

/// A backend that notes that it was asked; the last of a file's four takes the call.
fla::RegisteredBackend add_witness(int kind, int place) {
  const bool takes = place == 3;
  const std::string name = "w" + std::to_string(kind) + std::to_string(place);
  return add_ruled(name, 10 * kind + place, [kind, takes](const RuledArgs&) {
    asked = asked * 10 + kind + 1;
    return takes ? fla::accept() : fla::refuse("passes it on");
  });
}

/// Short calls and long ones are asked about in different orders, all four backends of the file each time: a
/// call that saw two files would show it.
std::string file_of(int kind) {
  const auto names = [kind](const std::array<int, 4>& places) {
    std::string list;
    for (const int place : places) list += "'w" + std::to_string(kind) + std::to_string(place) + "', ";
    return "[" + list + "]";
  };
  return "[order]\nruled = " + names({0, 1, 2, 3}) +
         "\n[[rule]]\nop = 'ruled'\nwhen = 'T < 64 and K == " + std::to_string(64 + kind) +
         "'\ndisable_dispatch = true\n[[rule]]\nop = 'ruled'\nwhen = 'T < 64'\norder = " +
         names({2, 0, 1, 3}) + "\n";
}

const std::array<std::string, 4> kWrong{"order = 3\n", "[order]\nruled = ['w00', 'w00']\n",
                                        "[[rule]]\nop = 'ruled'\n",
                                        "[[rule]]\nop = 'ruled'\nwhen = 'T <'\norder = []\n"};

}  // namespace

StressResult run_stress(const Stress& stress) {
  std::vector<fla::RegisteredBackend> witnesses;
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int place = 0; place < 4; ++place) witnesses.push_back(add_witness(kind, place));
  }
  const ConfigInForce config(file_of(0));
  StressResult result;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> calls{0}, torn{0};
  std::vector<std::thread> callers;
  for (int thread = 0; thread < stress.threads; ++thread) {
    callers.emplace_back([&, thread] {
      for (int i = thread; !done.load(std::memory_order_relaxed); ++i) {
        const RuledArgs args = arguments_of({.T = i % 2 == 0 ? 8 : 80, .K = 1});
        asked = 0;
        const std::string_view by = ruled_chunk(args).by;
        // All four of one kind were asked, and the one that took it is of that kind.
        const int kind = asked % 10 - 1;
        const bool whole = kind >= 0 && kind < kKinds && asked == (kind + 1) * 1111 &&
                           by == "w" + std::to_string(kind) + "3";
        if (!whole) torn.fetch_add(1, std::memory_order_relaxed);
        calls.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int rewrite = 0; rewrite < stress.rewrites; ++rewrite) {
    if (stress.meanwhile) stress.meanwhile(rewrite);
    const bool wrong = rewrite % 3 == 2;
    config.replace(wrong ? kWrong[static_cast<std::size_t>(rewrite) % kWrong.size()]
                         : file_of(rewrite % kKinds));
    try {
      fla::reload_config();  // beside the watch, which sees it too
      ++result.accepted;
    } catch (const fla::ConfigError&) {
      ++result.refused;
    }
  }
  done = true;
  for (std::thread& caller : callers) caller.join();
  result.calls = calls;
  result.torn = torn;
  return result;
}

}  // namespace fla_test
