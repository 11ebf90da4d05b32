#pragma once

namespace fla {

/// Whether indices that lie on a device are read and checked before a call runs: what FLA_CHECK_INDICES said
/// when the environment was last read, and never while UntouchedData is on. Throws ConfigError when the
/// variable is read for the first time and is wrong.
bool checks_device_indices();

}  // namespace fla
