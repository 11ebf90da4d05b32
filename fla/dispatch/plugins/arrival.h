#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/registration.h"

/// What a plugin brings, and whether it fits; not installed.
namespace fla::dispatch {

/// kda for kda, common for common.l2_norm.
inline std::string_view op_of(std::string_view served) { return served.substr(0, served.find('.')); }

/// What a plugin brought, or why it was refused.
struct Arrival {
  std::string plugin, path;
  std::string refused{};
  std::vector<Recipe> recipes{};
  std::vector<const FunctionBase*> functions{};

  struct ServedOp {
    std::string name;             ///< "kda" or "common.l2_norm"
    std::uint64_t args_size = 0;  ///< 0: not said

    std::string_view op() const { return op_of(name); }
    std::string_view function() const {
      return op() == name ? std::string_view() : std::string_view(name).substr(op().size() + 1);
    }
  };
  std::vector<ServedOp> ops{};  ///< what its descriptor says
};

/// An op as it is before a plugin comes.
struct PresentOp {
  std::string_view name;
  struct PresentFunction {
    std::string_view name;
    std::size_t args_size;
  };
  std::vector<PresentFunction> functions{};
  std::vector<std::string> backends{};
};

/// Why what a plugin brought cannot stand beside what is there; empty when it can.
std::string objection(const Arrival& arrival, std::span<const PresentOp> present);

}  // namespace fla::dispatch
