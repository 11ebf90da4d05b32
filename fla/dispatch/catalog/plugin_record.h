#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "fla/core/version.h"

/// What a shared library says of itself without being loaded: records in an ELF section of their own, which
/// FLA_REGISTER_BACKEND, FLA_PLUGIN_OP and FLA_PLUGIN put there. The loader reads them from the file, so that
/// a plugin's code first runs when an op is called that it serves.
namespace fla {

/// Grows whenever a plugin of yesterday could not work with the library of today: PluginDescriptor,
/// PluginRecord, the virtual members of BaseBackend, Recipe, Slot and Function.
inline constexpr std::uint32_t kPluginAbi = 4;

namespace dispatch {

#define FLA_TEXT_OF_(value) #value
#define FLA_TEXT_OF(value) FLA_TEXT_OF_(value)

/// What makes C++ objects of two compilations incompatible: the standard library, the layout of its strings
/// and containers, the machine. Not the compiler, nor its version.
inline constexpr std::string_view kToolchain =
#if defined(_LIBCPP_VERSION)
    "libc++ abi" FLA_TEXT_OF(_LIBCPP_ABI_VERSION)
#elif defined(_GLIBCXX_RELEASE) && _GLIBCXX_USE_CXX11_ABI
    "libstdc++ cxx11"
#elif defined(_GLIBCXX_RELEASE)
    "libstdc++ old-strings"
#else
    "unknown-library"
#endif
#if defined(_GLIBCXX_DEBUG)
        " debug"
#endif
#if defined(__aarch64__)
        " aarch64";
#elif defined(__x86_64__)
    " x86_64";
#else
    " unknown-machine";
#endif

#undef FLA_TEXT_OF
#undef FLA_TEXT_OF_

/// Plain bytes of a fixed size, so that files can be searched for them. Texts end with a zero.
struct alignas(64) PluginRecord {
  /// A module is a plugin that registers nothing beyond its records of ops: what it will bring is known
  /// before it is loaded.
  enum Kind : std::uint32_t { plugin = 1, op = 2, module = 3 };

  char magic[8];
  std::uint32_t abi_version;
  std::uint32_t kind;
  std::uint64_t args_size;  ///< of an op: its argument struct; 0 when the record does not know
  char name[64];            ///< of the plugin, or of the op
  char backend[64];         ///< of an op: the backend that serves it, where it is one
  char library_version[32];
  char toolchain[64];
};
static_assert(sizeof(PluginRecord) == 256 && std::is_trivially_copyable_v<PluginRecord>);

inline constexpr std::string_view kPluginMagic = "flaplug";
inline constexpr std::string_view kPluginSection = "fla_plugin_records";

namespace detail {

template <std::size_t size>
constexpr void put(char (&into)[size], std::string_view text) {
  if (text.size() >= size) throw "a name of a plugin, an op or a backend is too long";
  for (std::size_t i = 0; i < text.size(); ++i) into[i] = text[i];
}

/// The argument struct's size, where the op's backend class names the struct: `using Args = KdaArgs`.
template <class Backend>
constexpr std::uint64_t args_size_of() {
  if constexpr (requires { sizeof(typename Backend::Args); }) {
    return sizeof(typename Backend::Args);
  } else {
    return 0;
  }
}

constexpr PluginRecord record(PluginRecord::Kind kind, std::string_view name, std::string_view backend,
                              std::uint64_t args_size) {
  PluginRecord made{};
  put(made.magic, kPluginMagic);
  made.abi_version = kPluginAbi;
  made.kind = kind;
  made.args_size = args_size;
  put(made.name, name);
  put(made.backend, backend);
  put(made.library_version, kVersion);
  put(made.toolchain, kToolchain);
  return made;
}

}  // namespace detail
}  // namespace dispatch
}  // namespace fla

#if defined(__clang__)
#define FLA_KEPT_RECORD __attribute__((used, retain, section("fla_plugin_records")))
#else
#define FLA_KEPT_RECORD __attribute__((used, section("fla_plugin_records")))
#endif

#define FLA_PLUGIN_RECORD(VARIABLE, ...)                                    \
  FLA_KEPT_RECORD static constexpr ::fla::dispatch::PluginRecord VARIABLE = \
      ::fla::dispatch::detail::record(__VA_ARGS__)
