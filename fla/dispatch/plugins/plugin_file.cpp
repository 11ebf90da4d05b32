#include "fla/dispatch/plugins/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "fla/dispatch/catalog/plugin_record.h"

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
constexpr std::uint64_t kMostSections = 1 << 16, kMostNameBytes = 1 << 26, kMostRecords = 1 << 12,
                        kMostSymbols = 1 << 20;

FileIdentity identity_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .written_s = status.st_mtim.tv_sec,
          .written_ns = status.st_mtim.tv_nsec,
          .changed_s = status.st_ctim.tv_sec,
          .changed_ns = status.st_ctim.tv_nsec};
}

/// A file whose every read is held to its size.
class Bytes {
 public:
  explicit Bytes(const std::string& path) { problem_ = open(path); }
  ~Bytes() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  const std::string& problem() const { return problem_; }
  const FileIdentity& identity() const { return identity_; }
  std::uint64_t size() const { return identity_.size; }

  /// Whether so many bytes are there, whatever numbers a file claims.
  bool holds(std::uint64_t offset, std::uint64_t count) const {
    return offset <= size() && count <= size() - offset;
  }

  bool read(std::uint64_t offset, void* into, std::uint64_t count) const {
    if (!holds(offset, count)) return false;
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
  std::string open(const std::string& path) {
    const auto unreadable = [] { return std::string("cannot be read: ") + std::strerror(errno); };
    struct stat status {};
    // Before it is opened: that alone waits at a pipe, and does more to some devices.
    if (::lstat(path.c_str(), &status) != 0) return unreadable();
    if (!S_ISREG(status.st_mode)) return "is no file";
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return unreadable();
    if (!S_ISREG(status.st_mode)) return "is no file";
    identity_ = identity_of(status);
    return "";
  }

  int descriptor_ = -1;
  FileIdentity identity_;
  std::string problem_;
};

/// A library that was copied halfway would be mapped, and its end missed later; one whose numbers wrap around
/// would be mapped over what is there.
std::string segments_problem(const Bytes& file, const Elf64_Ehdr& header) {
  constexpr const char* kUnreadable = "is cut short or damaged: its program headers cannot be read";
  std::uint64_t end = 0;  // of the addresses of the segment before
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      !file.holds(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))
    return kUnreadable;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!file.read(header.e_phoff + i * sizeof segment, segment)) return kUnreadable;
    if (segment.p_type != PT_LOAD) continue;
    std::uint64_t file_end = 0, memory_end = 0;
    if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &file_end) ||
        __builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &memory_end) ||
        segment.p_filesz > segment.p_memsz || segment.p_vaddr < end)
      return "is damaged: its program header " + std::to_string(i) + " makes no sense";
    if (file_end > file.size()) {
      return "is cut short: " + std::to_string(file_end) + " bytes of it are to be loaded, it has " +
             std::to_string(file.size());
    }
    end = memory_end;
  }
  return "";
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
  return segments_problem(file, header);
}

/// The table of sections; empty when there is none or it is damaged.
std::vector<Elf64_Shdr> read_sections(const Bytes& file, const Elf64_Ehdr& header) {
  Elf64_Shdr first{};
  if (header.e_shoff == 0 || header.e_shentsize != sizeof first || !file.read(header.e_shoff, first))
    return {};
  // A file with very many sections keeps their number in the first one.
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  if (count > kMostSections) return {};
  std::vector<Elf64_Shdr> sections(count);
  if (!file.read(header.e_shoff, sections.data(), count * sizeof first)) return {};
  return sections;
}

/// The names that a section holds; nothing when it cannot be one of those.
std::optional<std::string> read_names(const Bytes& file, const std::vector<Elf64_Shdr>& sections,
                                      std::uint64_t at) {
  if (at >= sections.size()) return std::nullopt;
  const Elf64_Shdr& names = sections[at];
  if (names.sh_type != SHT_STRTAB || names.sh_size > kMostNameBytes ||
      !file.holds(names.sh_offset, names.sh_size))
    return std::nullopt;
  std::string text(names.sh_size, '\0');
  if (!file.read(names.sh_offset, text.data(), text.size())) return std::nullopt;
  return text;
}

bool is_name(const std::string& names, std::uint64_t at, std::string_view wanted) {
  if (at >= names.size()) return false;
  const std::string_view rest = std::string_view(names).substr(at);
  return rest.substr(0, rest.find('\0')) == wanted;
}

/// The section with the records; null when there is none.
const Elf64_Shdr* records_section(const Bytes& file, const Elf64_Ehdr& header,
                                  const std::vector<Elf64_Shdr>& sections) {
  if (sections.empty()) return nullptr;
  const std::uint64_t at = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : sections[0].sh_link;
  const auto names = read_names(file, sections, at);
  if (!names) return nullptr;
  const auto found = std::ranges::find_if(sections, [&](const Elf64_Shdr& section) {
    return section.sh_type == SHT_PROGBITS && is_name(*names, section.sh_name, kPluginSection);
  });
  return found == sections.end() ? nullptr : &*found;
}

/// Whether the library exports what every plugin does; nothing when its symbols cannot be read.
std::optional<bool> find_entry(const Bytes& file, const std::vector<Elf64_Shdr>& sections) {
  const auto table = std::ranges::find(sections, std::uint32_t{SHT_DYNSYM}, &Elf64_Shdr::sh_type);
  if (table == sections.end() || table->sh_size / sizeof(Elf64_Sym) > kMostSymbols) return std::nullopt;
  if (!file.holds(table->sh_offset, table->sh_size)) return std::nullopt;
  const auto names = read_names(file, sections, table->sh_link);
  std::vector<Elf64_Sym> symbols(table->sh_size / sizeof(Elf64_Sym));
  if (!names || !file.read(table->sh_offset, symbols.data(), symbols.size() * sizeof(Elf64_Sym)))
    return std::nullopt;
  return std::ranges::any_of(symbols, [&](const Elf64_Sym& symbol) {
    return symbol.st_shndx != SHN_UNDEF && is_name(*names, symbol.st_name, kPluginEntry);
  });
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

FileIdentity identity_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? identity_of(status) : FileIdentity{};
}

PluginFile read_plugin_file(const std::string& path) {
  const Bytes file(path);
  Elf64_Ehdr header{};
  PluginFile found;
  found.problem = elf_problem(file, header);
  found.identity = file.identity();
  found.is_library = found.problem.empty();
  if (!found.is_library) return found;
  const std::vector<Elf64_Shdr> sections = read_sections(file, header);
  if (const Elf64_Shdr* records = records_section(file, header, sections))
    found.manifest = read_manifest(file, *records);
  if (found.manifest) {
    found.problem = incompatible(found.manifest->abi_version);
    if (found.problem.empty())
      found.problem = incompatible(found.manifest->toolchain, found.manifest->library_version);
  }
  found.has_entry = find_entry(file, sections);
  if (found.problem.empty() && found.has_entry == false)
    found.problem = std::string("has no function ") + kPluginEntry;
  return found;
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
