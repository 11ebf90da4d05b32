#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What can be learned of a plugin's file without loading it; not installed.
namespace fla::dispatch {

/// What the records in the file say (fla/dispatch/catalog/plugin_record.h).
struct PluginManifest {
  struct Op {
    std::string name, backend;  ///< no backend: the plugin brings functions of the op
    std::uint64_t args_size = 0;
  };

  std::uint32_t abi_version = 0;
  bool complete = false;  ///< whether the records name everything that it registers
  std::string name, library_version, toolchain;
  std::vector<Op> ops;
};

/// Tells a file from another one that took its place, and from itself once somebody has written to it.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t written_s = 0, written_ns = 0, changed_s = 0, changed_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct PluginFile {
  std::string problem;                     ///< why it cannot be a plugin; empty: nothing speaks against it
  std::optional<PluginManifest> manifest;  ///< nothing: the file does not say
  bool is_library = false;                 ///< for this machine, and whole
  /// Whether it exports fla_plugin, as every plugin does; nothing: it has no table of sections to tell.
  std::optional<bool> has_entry;
  FileIdentity identity;

  /// A sound library that says nothing of itself and has no entry that could: no plugin.
  bool is_other_library() const { return !manifest && !has_entry.value_or(false) && is_library; }
};

/// What the plugin exports; see fla/dispatch/plugins/plugin.h.
inline constexpr const char* kPluginEntry = "fla_plugin";

/// Reads the file: an ELF library for this machine, and its records where it has them. Any bytes will do:
/// what makes no sense is a problem, or a file without a manifest. The path must have no link in it; a pipe
/// or a device is not opened. Where a file may lie is another question: fla/dispatch/plugins/path_safety.h.
PluginFile read_plugin_file(const std::string& path);

/// Of what is at that path now; all zeros when there is nothing.
FileIdentity identity_of(const std::string& path);

/// Why a plugin that was compiled like that cannot work with this library; empty when it can.
std::string incompatible(std::uint32_t abi_version);
std::string incompatible(std::string_view toolchain, std::string_view library_version);

}  // namespace fla::dispatch
