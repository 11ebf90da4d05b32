#pragma once

#include <cstdint>

namespace fla_test {

/// How many times this program, the library included, has called operator new so far. A program that uses it
/// has the operators replaced (link fla_test_allocations).
std::uint64_t allocations();

/// The same of the calling thread alone.
std::uint64_t allocations_of_this_thread();

}  // namespace fla_test
