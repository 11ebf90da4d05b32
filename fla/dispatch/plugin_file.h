#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What can be learned of a plugin's file without loading it; not installed.
namespace fla::dispatch {

/// What the records in the file say (fla/dispatch/plugin_record.h).
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

struct PluginFile {
  std::string problem;                     ///< why it cannot be a plugin; empty: nothing speaks against it
  std::optional<PluginManifest> manifest;  ///< nothing: the file does not say
};

/// Reads the file: an ELF library for this machine, and its records where it has them. Any bytes will do:
/// what makes no sense is a problem, or a file without a manifest.
PluginFile read_plugin_file(const std::string& path);

/// Why the file may not be loaded though it is sound: somebody beside its owner and root may write to it, or
/// to `folder`, which it was found in, or to the folder that it truly lies in. Empty: nothing.
std::string unsafe(const std::string& path, const std::string& folder);

/// Why a plugin that was compiled like that cannot work with this library; empty when it can.
std::string incompatible(std::uint32_t abi_version);
std::string incompatible(std::string_view toolchain, std::string_view library_version);

}  // namespace fla::dispatch
