#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/catalog/plugin_record.h"
#include "fla/dispatch/catalog/registration.h"

/// Plugins: shared libraries with backends, functions or whole ops, built outside this tree. In one of the
/// library's sources
///
///     FLA_PLUGIN(acme) {}
///
/// makes the library a plugin with everything in it that FLA_REGISTER_BACKEND and DISPATCH declare. What
/// stands in the braces runs once, when the plugin is loaded: FLA_REGISTER_BACKEND may as well stand there,
/// beside FLA_PLUGIN_OP and code of the plugin's own. An exception out of them keeps the plugin out.
///
/// Plugins are found in the folders and files of FLA_PLUGIN_PATH, in the folder fla/plugins beside libfla,
/// and by load_plugin; *.so files of a folder in alphabetical order. (FLA_PLUGIN_PATH is not obeyed in
/// programs that have more rights than their caller.) Each is loaded on the first call of an
/// op that it serves, never before; one whose file does not say what it serves, on the first call of any. A
/// library that does not export fla_plugin is not loaded. What was loaded stays until the process ends, and
/// what was refused stays refused.
///
/// A plugin that is wrong in any way is refused: it stays out, the reason is kept, and the process goes on.
/// So is one that somebody else may have put there: it, every folder and every link on the way to it must
/// belong to root, to the user or to the owner of libfla, and nobody else may write to them by their modes. A
/// sticky folder such as /tmp may be on the way, but the plugin may not lie in it itself. Folders that libfla
/// itself lies in are not judged.
///
/// A plugin's code may call fla while it is loaded (static objects, the braces, is_available()), also on
/// threads that it starts then: those calls go to the backends that are there already. It must not wait for
/// calls that other threads make: these wait for the plugin.
namespace fla {

/// An op that a plugin serves.
struct PluginOp {
  const char* name;         ///< "kda", or one function of it: "common.l2_norm"
  std::uint64_t args_size;  ///< of the argument struct that the plugin was compiled with; 0: not said
};

/// What the exported C function `const fla::PluginDescriptor* fla_plugin()` returns; FLA_PLUGIN writes it.
/// The library copies what it keeps.
struct PluginDescriptor {
  // These two stand here in every version.
  std::uint32_t abi_version;                     ///< kPluginAbi
  void (*free)(const PluginDescriptor* plugin);  ///< called once, when the library is done with this

  const char* toolchain;        ///< dispatch::kToolchain
  const char* library_version;  ///< kVersion of the headers; major and minor must be the library's
  const char* name;
  const PluginOp* ops;
  std::uint64_t op_count;
  void (*register_backends)();  ///< called once; makes the Registrations
};

/// What became of a plugin.
struct PluginStatus {
  std::string path{};             ///< the real one, where there is one
  std::string name{};             ///< its own; that of the file until it is known
  std::string state{};            ///< found, loaded or refused
  std::string reason{};           ///< why it was refused
  std::string library_version{};  ///< the version of fla that it was built for; empty until it is known
  bool ops_known = false;         ///< whether `ops` says what it serves: the file says so, or it was loaded
  std::vector<std::string> ops{};
  std::vector<std::string> backends{};  ///< "op.backend"
};

/// Adds a plugin to those that were found. Everything that can be checked without running its code is
/// checked now. It is loaded on the first call of an op that it serves; now, if there was one already. A path
/// that is known is not added twice. What came of it is in the answer. Throws InvalidArgument when there is
/// no such file, and ConfigError, as a call would, when a setting turns out to be wrong with the op's
/// backends loaded.
FLA_API PluginStatus load_plugin(const std::string& path);

/// All plugins, in the order in which they were found. Throws ConfigError when the environment is wrong.
FLA_API std::vector<PluginStatus> plugins();

/// The folder of the libfla that runs.
FLA_API std::string library_folder();

namespace dispatch::detail {

// The linker puts these around the section; hidden, so that each library sees its own.
extern "C" {
__attribute__((visibility("hidden"))) extern const PluginRecord __start_fla_plugin_records[];
__attribute__((visibility("hidden"))) extern const PluginRecord __stop_fla_plugin_records[];
}

/// A descriptor and what it points to.
struct OwnedDescriptor {
  PluginDescriptor descriptor;
  std::vector<PluginOp> ops;
};

/// Compiled into the plugin: it says what the plugin was compiled with.
__attribute__((visibility("hidden"))) inline const PluginDescriptor* make_descriptor(
    const char* name, void (*register_backends)()) {
  auto made = std::make_unique<OwnedDescriptor>();
  for (const PluginRecord* record = __start_fla_plugin_records; record != __stop_fla_plugin_records;
       ++record) {
    if (record->kind == PluginRecord::op) made->ops.push_back({record->name, record->args_size});
  }
  made->descriptor = {
      .abi_version = kPluginAbi,
      // The descriptor is its owner's first member.
      .free = [](const PluginDescriptor* plugin) { delete reinterpret_cast<const OwnedDescriptor*>(plugin); },
      .toolchain = kToolchain.data(),
      .library_version = kVersion.data(),
      .name = name,
      .ops = made->ops.data(),
      .op_count = made->ops.size(),
      .register_backends = register_backends,
  };
  return &made.release()->descriptor;
}

}  // namespace dispatch::detail
}  // namespace fla

/// Says that the plugin serves an op that it brings itself, or one of whose functions it brings, by DISPATCH:
/// FLA_PLUGIN_OP(acme_sum, AcmeSumArgs). FLA_REGISTER_BACKEND says so by itself.
#define FLA_PLUGIN_OP(OP, ARGS) \
  FLA_PLUGIN_RECORD(fla_plugin_op_##OP, ::fla::dispatch::PluginRecord::op, #OP, "", sizeof(ARGS))

#define FLA_PLUGIN_OF_KIND(NAME, KIND)                                                     \
  static void fla_plugin_register();                                                       \
  FLA_PLUGIN_RECORD(fla_plugin_itself, ::fla::dispatch::PluginRecord::KIND, #NAME, "", 0); \
  extern "C" FLA_API const ::fla::PluginDescriptor* fla_plugin();                          \
  const ::fla::PluginDescriptor* fla_plugin() {                                            \
    return ::fla::dispatch::detail::make_descriptor(#NAME, &fla_plugin_register);          \
  }                                                                                        \
  static void fla_plugin_register()

/// Once in a plugin, outside namespaces, followed by braces.
#define FLA_PLUGIN(NAME) FLA_PLUGIN_OF_KIND(NAME, plugin)

/// In place of it where FLA_REGISTER_BACKEND registers everything: settings that name backends can then be
/// checked before the plugin is loaded.
#define FLA_MODULE(NAME) \
  FLA_PLUGIN_OF_KIND(NAME, module) {}
