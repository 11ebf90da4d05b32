#include "fla/core/errors.h"

namespace fla {

InvalidArgument::InvalidArgument(std::string_view argument, std::string_view what, std::string_view op)
    : Error(std::string(op) + (op.empty() ? "" : ": ") + std::string(argument) + ": " + std::string(what)),
      argument_(argument),
      problem_(what),
      op_(op) {}

}  // namespace fla
