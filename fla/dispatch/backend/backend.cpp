#include "fla/dispatch/backend/backend.h"

namespace fla {

BaseBackend::~BaseBackend() = default;

}  // namespace fla
