#pragma once

#include <string_view>
#include <vector>

#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/lock.h"

/// Loading the backends of ops, those of plugins included; not installed. The lock is released while code of
/// others runs, which may call fla. Where such code is what calls, nothing is loaded. The environment must
/// have been read.
namespace fla::dispatch {

/// Whether the op's backends, those of plugins included, are all that there are.
bool is_loaded(Lock& lock, std::string_view op);

/// Loads them. Throws ConfigError when a setting turns out to be wrong.
void load(Lock& lock, std::string_view op);

/// Loads those of every op, without plugins.
void load_known(Lock& lock);

/// Loads what serves the op, if the op has been called before: for a plugin that came later.
void load_again(std::string_view op);

/// The function of that name; a plugin that may have it is loaded. Throws InvalidArgument.
const FunctionBase& find_function(std::string_view op, std::string_view name);

/// A function of the op that takes the arguments of its front door; one that is called like the op where it
/// has none. Throws likewise.
const FunctionBase& find_front(std::string_view op);

/// Those of every op that can be called without types; no plugin is loaded for it.
std::vector<const FunctionBase*> erased_functions();

}  // namespace fla::dispatch
