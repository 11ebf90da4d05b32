#include "tests/plugins/events.h"

/// A library that is no plugin.
namespace {
const fla_test::NotedLife life;
}
