#pragma once

#include <vector>

#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/registration.h"

namespace fla::dispatch {

/// What a plugin's library brings by itself when it is opened: while a Collecting is on the thread, static
/// registrations go into its Collected instead of the catalog. Not installed.
struct Collected {
  std::vector<Recipe> recipes;
  std::vector<const FunctionBase*> functions;
};

class Collecting {
 public:
  explicit Collecting(Collected& into);
  ~Collecting();
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
};

}  // namespace fla::dispatch
