#include "fla/dispatch/plugins/opening.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "fla/dispatch/catalog/collecting.h"
#include "fla/dispatch/plugins/path_safety.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/dispatch/plugins/plugin_file.h"

namespace fla::dispatch {
namespace {

/// The function of that library itself: dlsym would take one of a library that it needs, too.
void* own_symbol(void* handle, const char* name) {
  void* symbol = ::dlsym(handle, name);
  link_map *library = nullptr, *holder = nullptr;
  Dl_info info{};
  if (symbol == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &library) != 0) return nullptr;
  if (::dladdr1(symbol, &info, reinterpret_cast<void**>(&holder), RTLD_DL_LINKMAP) == 0) return nullptr;
  return library == holder ? symbol : nullptr;
}

std::string descriptor_problem(const PluginDescriptor& plugin) {
  const char* missing = plugin.toolchain == nullptr                      ? "toolchain"
                        : plugin.library_version == nullptr              ? "library_version"
                        : plugin.name == nullptr || *plugin.name == '\0' ? "name"
                        : plugin.ops == nullptr || plugin.op_count == 0  ? "ops"
                        : plugin.register_backends == nullptr            ? "register_backends"
                        : plugin.free == nullptr                         ? "free"
                                                                         : nullptr;
  if (missing != nullptr) return std::string("its descriptor has no ") + missing;
  if (std::any_of(plugin.ops, plugin.ops + plugin.op_count,
                  [](const PluginOp& op) { return op.name == nullptr || *op.name == '\0'; })) {
    return "its descriptor has an op without a name";
  }
  return incompatible(plugin.toolchain, plugin.library_version);
}

/// Runs the register function; says what it threw.
std::string run_registration(const PluginDescriptor& plugin) {
  try {
    plugin.register_backends();
    return "";
  } catch (const std::exception& error) {
    return std::string("its register function threw: ") + error.what();
  } catch (...) {
    return "its register function threw something that is no std::exception";
  }
}

/// Reads the descriptor, registers, and gives the descriptor back; says why the plugin is refused.
std::string take(void* handle, Opened& opened, Collected& collected) {
  void* symbol = own_symbol(handle, kPluginEntry);
  if (symbol == nullptr) return std::string("has no function ") + kPluginEntry;
  const PluginDescriptor* plugin = nullptr;
  try {
    plugin = reinterpret_cast<const PluginDescriptor* (*)()>(symbol)();
  } catch (const std::exception& error) {
    return std::string(kPluginEntry) + "() threw: " + error.what();
  } catch (...) {
    return std::string(kPluginEntry) + "() threw something that is no std::exception";
  }
  if (plugin == nullptr) return std::string(kPluginEntry) + "() returned no descriptor";
  std::string problem = incompatible(plugin->abi_version);
  if (problem.empty()) problem = descriptor_problem(*plugin);
  if (problem.empty()) {
    opened.arrival.plugin = plugin->name;
    opened.library_version = plugin->library_version;
    for (std::uint64_t i = 0; i < plugin->op_count; ++i)
      opened.arrival.ops.push_back({plugin->ops[i].name, plugin->ops[i].args_size});
    const Collecting collecting(collected);
    problem = run_registration(*plugin);
  }
  if (problem.empty() && collected.recipes.empty() && collected.functions.empty())
    problem = "registers no backend and no function";
  if (plugin->free != nullptr) plugin->free(plugin);
  return problem;
}

}  // namespace

Opened open_plugin(const std::string& path, const std::string& found_as, const std::string& name) {
  Opened opened{.arrival = {.plugin = name, .path = path}, .library_version = {}};
  // It may have changed since it was found.
  opened.arrival.refused = unsafe(found_as);
  if (!opened.arrival.refused.empty()) return opened;
  const PluginFile checked = read_plugin_file(path);
  opened.arrival.refused = checked.problem;
  if (!opened.arrival.refused.empty()) return opened;
  Collected collected;
  {
    const Collecting collecting(collected);  // static registrations of the library
    opened.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (opened.handle == nullptr) {
    const char* why = ::dlerror();
    opened.arrival.refused =
        std::string("cannot be loaded: ") + (why != nullptr ? why : "for no reason given");
    return opened;
  }
  // By its path, since it may look for files beside itself. Nobody but a trusted owner can have put another
  // file there meanwhile.
  if (identity_of(path) == checked.identity) {
    opened.arrival.refused = take(opened.handle, opened, collected);
  } else {
    opened.arrival.refused = "was replaced while it was being loaded";
  }
  if (opened.arrival.refused.empty()) {
    opened.arrival.recipes = std::move(collected.recipes);
    opened.arrival.functions = std::move(collected.functions);
  } else {
    ::dlclose(std::exchange(opened.handle, nullptr));
  }
  return opened;
}

}  // namespace fla::dispatch
