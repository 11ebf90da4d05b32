#include "fla/dispatch/config/config_target.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/registry/registry_state.h"

/// Ties the rooms: what a lower one asks of higher ones, which it may not include.
namespace fla::dispatch {
namespace {

const bool connected = (connect(ConfigTarget{
                            .in_force = [] { return Registry::instance().configuration(); },
                            .generation = generation,
                            .known_names = [] { return Registry::instance().known_names(); },
                            .replace =
                                [](std::shared_ptr<const Configuration> next, std::uint64_t checked) {
                                  return Registry::instance().set_configuration(std::move(next), checked);
                                },
                            .load_all = [] { (void)ops(); },
                        }),
                        true);

}  // namespace
}  // namespace fla::dispatch
