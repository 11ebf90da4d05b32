#include "fla/core/untouched_data.h"

namespace fla {
namespace {

constinit thread_local int on = 0;

}  // namespace

UntouchedData::UntouchedData() { ++on; }
UntouchedData::~UntouchedData() { --on; }
bool UntouchedData::is_on() { return on > 0; }

}  // namespace fla
