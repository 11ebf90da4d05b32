#include "fla/dispatch/catalog/lock.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/config/config_target.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/registry/known_names.h"
#include "fla/dispatch/registry/settings_in_force.h"

/// Ties the rooms: what a lower one asks of higher ones, which it may not include.
namespace fla::dispatch {
namespace {

KnownNames names_of_now() {
  Lock lock;
  return known_names(lock);
}

void load_all() { (void)ops(); }

const bool connected = (connect(ConfigTarget{.in_force = configuration_in_force,
                                             .generation = generation,
                                             .known_names = names_of_now,
                                             .replace = set_configuration,
                                             .load_all = load_all}),
                        true);

}  // namespace
}  // namespace fla::dispatch
