#pragma once

namespace fla {

/// Whether indices that lie on a device are read and checked before a call runs: what FLA_CHECK_INDICES said
/// when the environment was last read. Throws ConfigError when it is read for the first time and is wrong.
bool checks_device_indices();

/// While one of these is on the thread, they are not: for who may not touch data.
class WithoutIndexChecks {
 public:
  WithoutIndexChecks();
  ~WithoutIndexChecks();
  WithoutIndexChecks(const WithoutIndexChecks&) = delete;
  WithoutIndexChecks& operator=(const WithoutIndexChecks&) = delete;
};

/// What FLA_CHECK_INDICES says now. Throws ConfigError.
bool index_checks_of_environment();

/// Makes that hold.
void obey_index_checks(bool on);

}  // namespace fla
