#include "fla/dispatch/plugins/plugin_loader.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/dispatch/lock_order.h"
#include "fla/dispatch/plugins/path_safety.h"
#include "fla/dispatch/registry/registry_state.h"

namespace fla {
namespace dispatch {
namespace {

/// kda for kda, common for common.l2_norm
std::string op_of(std::string_view served) { return std::string(served.substr(0, served.find('.'))); }

}  // namespace
}  // namespace dispatch

PluginStatus load_plugin(const std::string& path) {
  std::error_code error;
  (void)std::filesystem::canonical(path, error);
  if (error)
    throw InvalidArgument("path", "expected a plugin's file, got '" + path + "': " + error.message());
  dispatch::Registry& registry = dispatch::Registry::instance();
  const PluginStatus added = dispatch::Plugins::instance().add(path);
  std::vector<std::string> ops;
  for (const std::string& served : added.ops) ops.push_back(dispatch::op_of(served));
  if (!added.ops_known) {
    for (const auto& [op, ignored] : registry.known_names().ops) ops.push_back(op);
  }
  for (const std::string& op : ops) registry.load_again(op);
  return dispatch::Plugins::instance().add(path);
}

std::vector<PluginStatus> plugins() {
  (void)dispatch::Registry::instance().policy();  // reads the environment, which FLA_PLUGIN_PATH is in
  return dispatch::Plugins::instance().status();
}

std::string library_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&library_folder), &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? "" : path.parent_path().string();
}

namespace dispatch {
namespace {

namespace fs = std::filesystem;

void add_once(std::vector<std::string>& list, std::string item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

/// acme for libacme.so
std::string name_of_file(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  if (name.starts_with("lib") && name.size() > 3) name.erase(0, 3);
  return name;
}

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
  const std::array<std::pair<const char*, bool>, 6> fields{
      {{"toolchain", plugin.toolchain != nullptr},
       {"library_version", plugin.library_version != nullptr},
       {"name", plugin.name != nullptr && *plugin.name != '\0'},
       {"ops", plugin.ops != nullptr && plugin.op_count > 0},
       {"register_backends", plugin.register_backends != nullptr},
       {"free", plugin.free != nullptr}}};
  for (const auto& [field, is_there] : fields) {
    if (!is_there) return std::string("its descriptor has no ") + field;
  }
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

/// What an opened library turned out to be.
struct Opened {
  Arrival arrival;
  std::string library_version;
  void* handle = nullptr;  ///< null when it was closed again
};

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

/// Loads a file and takes what it brings. Runs its code: no lock may be held.
Opened open(const std::string& path, const std::string& found_as, const std::string& name) {
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

}  // namespace

std::string name_problem(std::string_view backend) {
  if (backend != kOriginalKernel.name) return "";
  return "named '" + std::string(backend) +
         "', which is what the op's own kernel is called: choose another name";
}

std::string objection(const Arrival& arrival, std::span<const PresentOp> present) {
  using PresentFunction = PresentOp::PresentFunction;
  std::map<std::string_view, PresentOp> ops;
  for (const PresentOp& op : present) ops[op.name] = op;
  for (const FunctionBase* function : arrival.functions) {
    std::vector<PresentFunction>& functions = ops[function->op()].functions;
    if (std::ranges::find(functions, function->name(), &PresentFunction::name) != functions.end()) {
      return "it brings function '" + std::string(function->name()) + "', which op " +
             std::string(function->op()) + " has already";
    }
    functions.push_back({function->name(), function->description().args_size});
  }
  for (const Arrival::ServedOp& served : arrival.ops) {
    const auto op = ops.find(served.op());
    if (op == ops.end()) return "it serves op '" + std::string(served.op()) + "', which does not exist";
    std::vector<std::size_t> sizes;
    for (const PresentFunction& function : op->second.functions) {
      if (served.function().empty() || function.name == served.function())
        sizes.push_back(function.args_size);
    }
    if (sizes.empty()) return "it serves " + served.name + ", which does not exist";
    // A function that a plugin added to an op may have arguments of its own.
    if (served.args_size != 0 && std::ranges::find(sizes, served.args_size) == sizes.end()) {
      return "its arguments of " + served.name + " have " + std::to_string(served.args_size) +
             " bytes, this library's have " + std::to_string(sizes.front());
    }
  }
  for (const Recipe& recipe : arrival.recipes) {
    const auto op = ops.find(recipe.op);
    if (op == ops.end()) return "it serves op '" + std::string(recipe.op) + "', which does not exist";
    if (std::string why = name_problem(recipe.name); !why.empty()) return "it brings a backend " + why;
    std::vector<std::string>& backends = op->second.backends;
    if (std::ranges::find(backends, recipe.name) != backends.end()) {
      return "it brings backend '" + std::string(recipe.name) + "', which op " + std::string(recipe.op) +
             " has already";
    }
    backends.emplace_back(recipe.name);
  }
  return "";
}

bool Plugins::File::serves(std::string_view op) const {
  return !ops_known || std::ranges::any_of(ops, [op](const std::string& each) { return op_of(each) == op; });
}

bool Plugins::File::waits_for(std::string_view op) const {
  if (state == State::found) return serves(op);
  return state == State::refused && serves(op) && std::ranges::find(reported, op) == reported.end();
}

void Plugins::File::learn(std::string version, void* opened, const Arrival& arrival) {
  name = arrival.plugin;
  handle = opened;
  if (!version.empty()) library_version = std::move(version);
  if (!arrival.ops.empty()) {
    ops_known = true;
    ops.clear();
    for (const Arrival::ServedOp& op : arrival.ops) add_once(ops, op.name);
  }
  if (arrival.refused.empty()) {
    backends.clear();
    for (const Recipe& recipe : arrival.recipes)
      add_once(backends, std::string(recipe.op) + "." + std::string(recipe.name));
  } else {
    state = State::refused;
    reason = arrival.refused;
  }
}

Plugins& Plugins::instance() {
  static Plugins& plugins = *new Plugins;  // never freed, like the registry
  return plugins;
}

Plugins::Plugins() { guard_against_fork(LockOrder::plugins, mutex_); }

Plugins::File* Plugins::known(std::string_view path) {
  const auto found = std::ranges::find(files_, path, [](const auto& file) { return file->path; });
  return found == files_.end() ? nullptr : found->get();
}

Plugins::File& Plugins::look_at(const std::string& path, bool in_folder) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const std::string name = error ? path : real.string();
  if (File* file = known(name)) return *file;
  File& made = *files_.emplace_back(std::make_unique<File>());
  made.path = name;
  std::error_code no_folder;
  made.found_as = fs::absolute(path, no_folder).string();
  made.name = name_of_file(made.path);
  std::string problem;
  if (error) {
    problem = "cannot be read: " + std::generic_category().message(error.value());
  } else {
    const PluginFile file = read_plugin_file(made.path);
    problem = file.problem;
    if (file.manifest) {
      made.name = file.manifest->name;
      made.library_version = file.manifest->library_version;
      made.ops_known = true;
      made.complete = file.manifest->complete;
      for (const PluginManifest::Op& op : file.manifest->ops) {
        add_once(made.ops, op.name);
        if (!op.backend.empty()) add_once(made.backends, op.name + "." + op.backend);
      }
    }
    // A library that plugins need may lie beside them: it serves nothing, and nobody has to hear of it.
    if (in_folder && file.is_other_library()) {
      problem = std::string("has no function ") + kPluginEntry;
      made.ops_known = true;
    }
    if (const std::string loose = unsafe(made.found_as); !loose.empty()) problem = loose;
  }
  if (!problem.empty()) {
    made.state = State::refused;
    made.reason = problem;
  }
  return made;
}

void Plugins::look_into(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".so") paths.push_back(entry->path().string());
  }
  // A folder that cannot be read stands in the list itself, for what may be in it.
  if (error) return static_cast<void>(look_at(folder, true));
  std::ranges::sort(paths);
  for (const std::string& path : paths) look_at(path, true);
}

void Plugins::find(const std::string& plugin_path) {
  const std::lock_guard lock(mutex_);
  std::size_t begin = 0;
  while (begin <= plugin_path.size()) {
    const std::size_t end = std::min(plugin_path.find(':', begin), plugin_path.size());
    const std::string item = plugin_path.substr(begin, end - begin);
    begin = end + 1;
    std::error_code ignored;
    if (item.empty()) continue;
    if (fs::is_directory(item, ignored)) {
      look_into(item);
    } else {
      look_at(item, false);
    }
  }
  const std::string own = library_folder() + "/fla/plugins";
  std::error_code ignored;
  if (fs::is_directory(own, ignored)) look_into(own);
}

PluginStatus Plugins::add(const std::string& path) {
  PluginStatus added;
  File* file = nullptr;
  {
    const std::lock_guard lock(mutex_);
    file = &look_at(path, false);
    added = status_of(*file);
  }
  if (added.state == "refused") tell(*file);
  return added;
}

void Plugins::tell(File& file) {
  if (!file.told.exchange(true))
    log(spdlog::level::warn, "[FLA Plugin] " + file.path + " refused: " + file.reason);
}

bool Plugins::may_serve(std::string_view op) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(files_, [op](const auto& file) {
    return file->waits_for(op) || (file->state == State::loading && file->serves(op));
  });
}

bool Plugins::may_bring_ops() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(files_,
                             [](const auto& file) { return file->state == State::found && !file->complete; });
}

bool Plugins::may_bring_backends(std::string_view op) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(files_, [op](const auto& file) {
    return !file->complete && (file->waits_for(op) || (file->state == State::loading && file->serves(op)));
  });
}

std::vector<std::string> Plugins::promised_backends() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> promised;
  for (const auto& file : files_) {
    if (file->state != State::loaded)
      promised.insert(promised.end(), file->backends.begin(), file->backends.end());
  }
  return promised;
}

std::vector<std::string> Plugins::ops() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const auto& file : files_) {
    if (file->state != State::found) continue;
    for (const std::string& served : file->ops) add_once(found, op_of(served));
  }
  return found;
}

std::vector<Arrival> Plugins::load_for(std::string_view op) {
  // Files are never taken out of the list. Those that are loading or refused are changed by nobody but the
  // thread that is here.
  std::vector<File*> waiting;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& file : files_) {
      if (!file->waits_for(op)) continue;
      if (file->state == State::found) file->state = State::loading;
      file->reported.emplace_back(op);
      waiting.push_back(file.get());
    }
  }
  std::vector<Arrival> arrivals;
  for (File* file : waiting) {
    if (file->state == State::loading) {
      Opened opened = open(file->path, file->found_as, file->name);
      const std::lock_guard lock(mutex_);
      file->learn(std::move(opened.library_version), opened.handle, opened.arrival);
      arrivals.push_back(std::move(opened.arrival));
    } else {
      arrivals.push_back({.plugin = file->name, .path = file->path, .refused = file->reason});
    }
    if (file->state == State::refused) tell(*file);
  }
  return arrivals;
}

void Plugins::settle(const std::string& path, const std::string& refused) {
  File* file = nullptr;
  {
    const std::lock_guard lock(mutex_);
    file = known(path);
    if (file == nullptr || file->state != State::loading) return;
    file->state = refused.empty() ? State::loaded : State::refused;
    file->reason = refused;
  }
  if (refused.empty()) {
    log(spdlog::level::info, "[FLA Plugin] " + path + " loaded: " + file->name);
  } else {
    ::dlclose(std::exchange(file->handle, nullptr));
    tell(*file);
  }
}

std::vector<PluginStatus> Plugins::status() const {
  const std::lock_guard lock(mutex_);
  std::vector<PluginStatus> found;
  for (const auto& file : files_) found.push_back(status_of(*file));
  return found;
}

PluginStatus Plugins::status_of(const File& file) {
  constexpr std::array<const char*, 4> states{"found", "found", "loaded", "refused"};
  return {.path = file.path,
          .name = file.name,
          .state = states[static_cast<std::size_t>(file.state)],
          .reason = file.reason,
          .library_version = file.library_version,
          .ops_known = file.ops_known,
          .ops = file.ops,
          .backends = file.backends};
}

}  // namespace dispatch
}  // namespace fla
