#include "fla/dispatch/config/config_target.h"

namespace fla::dispatch {
namespace {

constinit ConfigTarget connected;  // whichever of the library's static objects comes first

}  // namespace

void connect(const ConfigTarget& target) { connected = target; }
const ConfigTarget& config_target() { return connected; }

}  // namespace fla::dispatch
