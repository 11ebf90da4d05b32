#include "fla/dispatch/backend/backend.h"

#include "fla/core/errors.h"

namespace fla {

BaseBackend::~BaseBackend() = default;

void BaseBackend::not_implemented(std::string_view function) {
  throw BackendError(std::string(function) + " is not implemented", BackendError::Wrote::nothing);
}

}  // namespace fla
