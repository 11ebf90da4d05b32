#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/failure/breaker.h"

namespace fla::dispatch {

/// A backend of an op. Those that may call it, by a snapshot or a plan, keep it alive. Not installed.
struct Entry {
  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  std::uint64_t id = 0;
  std::string name;
  std::string origin;                    ///< the plugin's file, "program", or empty: linked in
  std::unique_ptr<BaseBackend> backend;  ///< null when it could not be made
  BackendInfo info;
  std::vector<Slot> slots;
  Availability availability;

  struct Pair {
    std::uint32_t counter;
    std::shared_ptr<Breaker> breaker;
  };
  std::map<std::string, Pair, std::less<>> pairs;  ///< by function

  const Slot* slot(std::string_view function) const;
  const Pair& pair(std::string_view op, std::string_view function);
  /// Makes the pair if the backend has the function: what it lacks is not counted.
  void add_pair(std::string_view op, std::string_view function);
};

}  // namespace fla::dispatch
