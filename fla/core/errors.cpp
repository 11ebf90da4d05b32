#include "fla/core/errors.h"

namespace fla {

InvalidArgument::InvalidArgument(std::string_view argument, std::string_view what)
    : Error(std::string(argument) + ": " + std::string(what)), argument_(argument) {}

}  // namespace fla
