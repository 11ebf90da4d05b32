#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// What counters are called, and what they have counted so far; not installed.
namespace fla::dispatch {

struct CounterCell;

struct CounterName {
  std::string op, function, backend;
  friend auto operator<=>(const CounterName&,
                          const CounterName&) = default;  // NOLINT(modernize-use-nullptr): none here
};

struct CounterTotals {
  std::uint64_t taken = 0, failed = 0, fell_back = 0, turned_away = 0;
  std::map<std::tuple<const char*, const char*, unsigned>, std::uint64_t> refused{};  // wording, file, line

  void add(const CounterCell& cell);
  void add(const CounterTotals& other);
};

/// The counter of that name, for one holder more. The original kernel's is never released.
std::uint32_t new_counter(std::string_view op, std::string_view function, std::string_view backend);
/// Nobody who holds it is left to count with it when it is released for the last time.
void release_counter(std::uint32_t counter);

/// By all threads: names in the order in which they came, then, by function, what names counted that are gone
/// for long.
std::vector<std::pair<CounterName, CounterTotals>> counted_so_far();

}  // namespace fla::dispatch
