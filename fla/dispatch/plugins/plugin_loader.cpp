#include "fla/dispatch/plugins/plugin_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fla/core/logging.h"
#include "fla/dispatch/lock_order.h"
#include "fla/dispatch/plugins/opening.h"
#include "fla/dispatch/plugins/path_safety.h"
#include "fla/dispatch/plugins/plugin_file.h"

namespace fla::dispatch {
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

}  // namespace

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
  static Plugins& plugins = *new Plugins;  // never freed: calls may outlive static objects
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
    for (const std::string& served : file->ops) add_once(found, std::string(op_of(served)));
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
      Opened opened = open_plugin(file->path, file->found_as, file->name);
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

}  // namespace fla::dispatch
