#include "fla/dispatch/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "fla/dispatch/plugin_record.h"

namespace fla::dispatch {
namespace {

constexpr unsigned char kByteOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
#if defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#elif defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#else
constexpr std::uint16_t kMachine = EM_NONE;
#endif

/// More than anybody needs; a file that claims more is not believed.
constexpr std::uint64_t kMostSections = 1 << 16, kMostNameBytes = 1 << 22, kMostRecords = 1 << 12;

/// A file whose every read is held to its size.
class Bytes {
 public:
  explicit Bytes(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      problem_ = std::string("cannot be read: ") + std::strerror(errno);
    } else if (!S_ISREG(status.st_mode)) {
      problem_ = "is no file";
    } else {
      size_ = static_cast<std::uint64_t>(status.st_size);
    }
  }
  ~Bytes() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  const std::string& problem() const { return problem_; }
  std::uint64_t size() const { return size_; }

  bool read(std::uint64_t offset, void* into, std::uint64_t count) const {
    if (offset > size_ || count > size_ - offset) return false;
    auto* next = static_cast<char*>(into);
    while (count > 0) {
      const ssize_t got = ::pread(descriptor_, next, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      next += got;
      offset += static_cast<std::uint64_t>(got);
      count -= static_cast<std::uint64_t>(got);
    }
    return true;
  }

  template <class Type>
  bool read(std::uint64_t offset, Type& into) const {
    return read(offset, &into, sizeof into);
  }

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
  std::string problem_;
};

/// A library that was copied halfway would be mapped, and its end missed later.
std::string length_problem(const Bytes& file, const Elf64_Ehdr& header) {
  std::uint64_t needed = 0;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (header.e_phentsize != sizeof segment || !file.read(header.e_phoff + i * sizeof segment, segment))
      return "is cut short or damaged: its program headers cannot be read";
    if (segment.p_type == PT_LOAD) needed = std::max(needed, segment.p_offset + segment.p_filesz);
  }
  if (needed <= file.size()) return "";
  return "is cut short: " + std::to_string(needed) + " bytes of it are to be loaded, it has " +
         std::to_string(file.size());
}

std::string elf_problem(const Bytes& file, Elf64_Ehdr& header) {
  if (!file.problem().empty()) return file.problem();
  if (!file.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "is no shared library: it does not begin as an ELF file does";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kByteOrder ||
      header.e_machine != kMachine) {
    return "is for another machine: ELF machine " + std::to_string(header.e_machine) + ", this one is " +
           std::to_string(kMachine);
  }
  if (header.e_type != ET_DYN)
    return "is no shared library but another kind of ELF file (type " + std::to_string(header.e_type) + ")";
  return length_problem(file, header);
}

/// The place of the section with the records; nothing when there is none or the table is damaged.
std::optional<Elf64_Shdr> records_section(const Bytes& file, const Elf64_Ehdr& header) {
  Elf64_Shdr first{};
  if (header.e_shoff == 0 || header.e_shentsize != sizeof first || !file.read(header.e_shoff, first))
    return std::nullopt;
  // A file with very many sections keeps their number and the names' place in the first one.
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  const std::uint64_t names_at = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  if (count > kMostSections || names_at >= count) return std::nullopt;
  std::vector<Elf64_Shdr> sections(count);
  if (!file.read(header.e_shoff, sections.data(), count * sizeof first)) return std::nullopt;
  const Elf64_Shdr& names = sections[names_at];
  if (names.sh_type != SHT_STRTAB || names.sh_size > kMostNameBytes) return std::nullopt;
  std::string text(names.sh_size, '\0');
  if (!file.read(names.sh_offset, text.data(), text.size())) return std::nullopt;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_PROGBITS || section.sh_name >= text.size()) continue;
    const std::string_view rest = std::string_view(text).substr(section.sh_name);
    if (rest.substr(0, rest.find('\0')) == kPluginSection) return section;
  }
  return std::nullopt;
}

template <std::size_t size>
std::string text_of(const char (&bytes)[size]) {
  return {bytes, static_cast<std::size_t>(std::find(bytes, bytes + size, '\0') - bytes)};
}

std::optional<PluginManifest> read_manifest(const Bytes& file, const Elf64_Shdr& section) {
  const std::uint64_t count = section.sh_size / sizeof(PluginRecord);
  if (count > kMostRecords || section.sh_size % sizeof(PluginRecord) != 0) return std::nullopt;
  std::vector<PluginRecord> records(count);
  if (!file.read(section.sh_offset, records.data(), count * sizeof(PluginRecord))) return std::nullopt;
  std::optional<PluginManifest> found;
  for (const PluginRecord& record : records) {
    if (text_of(record.magic) != kPluginMagic) return std::nullopt;
    if (record.kind != PluginRecord::plugin && record.kind != PluginRecord::module) continue;
    found = PluginManifest{.abi_version = record.abi_version,
                           .complete = record.kind == PluginRecord::module,
                           .name = text_of(record.name),
                           .library_version = text_of(record.library_version),
                           .toolchain = text_of(record.toolchain),
                           .ops = {}};
  }
  for (const PluginRecord& record : records) {
    if (found && record.kind == PluginRecord::op)
      found->ops.push_back({text_of(record.name), text_of(record.backend), record.args_size});
  }
  // Without an op it would never be loaded; its own function may say more.
  if (found && found->ops.empty()) return std::nullopt;
  return found;
}

std::string octal(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777u);
  return text.data();
}

/// The mode of a file or folder that others may write to; empty when they may not.
std::string loose_mode(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
  return octal(status.st_mode);
}

struct Version {
  int major = -1, minor = -1;
  friend bool operator==(const Version&, const Version&) = default;
};

Version version_of(std::string_view text) {
  Version version;
  const auto [dot, error] = std::from_chars(text.data(), text.data() + text.size(), version.major);
  if (error == std::errc() && dot != text.data() + text.size() && *dot == '.')
    std::from_chars(dot + 1, text.data() + text.size(), version.minor);
  return version;
}

}  // namespace

PluginFile read_plugin_file(const std::string& path) {
  const Bytes file(path);
  Elf64_Ehdr header{};
  PluginFile found{.problem = elf_problem(file, header), .manifest = {}};
  if (!found.problem.empty()) return found;
  if (const auto section = records_section(file, header)) found.manifest = read_manifest(file, *section);
  if (!found.manifest) return found;
  found.problem = incompatible(found.manifest->abi_version);
  if (found.problem.empty())
    found.problem = incompatible(found.manifest->toolchain, found.manifest->library_version);
  return found;
}

std::string unsafe(const std::string& path, const std::string& folder) {
  if (const std::string mode = loose_mode(path); !mode.empty())
    return "others than its owner and root may write to it (mode " + mode + ")";
  for (const std::string& each : {folder, std::filesystem::path(path).parent_path().string()}) {
    if (const std::string mode = loose_mode(each); !mode.empty()) {
      return "lies in " + each + ", which others than its owner and root may write to (mode " + mode + ")";
    }
  }
  return "";
}

std::string incompatible(std::uint32_t abi_version) {
  if (abi_version == kPluginAbi) return "";
  return "was built for plugin ABI " + std::to_string(abi_version) + ", this library has " +
         std::to_string(kPluginAbi);
}

std::string incompatible(std::string_view toolchain, std::string_view library_version) {
  if (toolchain != kToolchain) {
    return "was built with toolchain '" + std::string(toolchain) + "', this library with '" +
           std::string(kToolchain) + "'";
  }
  // Before 1.0 a new minor version may break plugins.
  const Version built = version_of(library_version), here = version_of(kVersion);
  if (here.major == 0 ? built != here : built.major != here.major) {
    return "was built for fla " + std::string(library_version) + ", this is fla " + std::string(kVersion);
  }
  return "";
}

}  // namespace fla::dispatch
