#include "fla/dispatch/plugins/plugin_file.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

#include "fla/dispatch/catalog/plugin_record.h"
#include "fla/ops/kda/kda.h"
#include "tests/plugins/plugin_folder.h"
#include "tools/cases/random.h"

namespace {

using fla::dispatch::PluginFile;
using fla::dispatch::read_plugin_file;
using fla_test::PluginFolder;

std::string built(const std::string& plugin) { return std::string(FLA_TEST_PLUGINS) + "/" + plugin + ".so"; }

TEST(PluginFileReader, ReadsWhatTheLibrarySaysOfItself) {
  const PluginFile file = read_plugin_file(built("acme"));
  EXPECT_EQ(file.problem, "");
  ASSERT_TRUE(file.manifest);
  EXPECT_EQ(file.manifest->abi_version, fla::kPluginAbi);
  EXPECT_EQ(file.manifest->name, "acme");
  EXPECT_EQ(file.manifest->library_version, fla::kVersion);
  EXPECT_EQ(file.manifest->toolchain, fla::dispatch::kToolchain);
  ASSERT_EQ(file.manifest->ops.size(), 1u);
  EXPECT_EQ(file.manifest->ops[0].name, "kda");
  EXPECT_EQ(file.manifest->ops[0].backend, "acme");
  EXPECT_EQ(file.manifest->ops[0].args_size, sizeof(fla::KdaArgs));
}

TEST(PluginFileReader, FindsOpsThatALibraryBringsItself) {
  const PluginFile file = read_plugin_file(built("acme_sum"));
  ASSERT_TRUE(file.manifest);
  std::vector<std::string> ops;
  for (const auto& op : file.manifest->ops) ops.push_back(op.name + "." + op.backend);
  EXPECT_THAT(ops, testing::UnorderedElementsAre("acme_sum.thousand", "acme_sum.", "kda."));
}

TEST(PluginFileReader, HasNoManifestOfALibraryWithoutRecords) {
  const PluginFile file = read_plugin_file(built("defective"));
  EXPECT_EQ(file.problem, "");
  EXPECT_FALSE(file.manifest);
}

TEST(PluginFileReader, TellsAnotherMachineAndAnotherKindOfFile) {
  const PluginFolder folder;
  const std::string bytes = fla::testing::read_bytes(built("acme"));
  std::string other = bytes;
  other[offsetof(Elf64_Ehdr, e_machine)] = EM_RISCV - 256;
  EXPECT_THAT(read_plugin_file(folder.write("machine.so", other)).problem,
              testing::StartsWith("is for another machine: ELF machine 243, this one is "));
  other = bytes;
  other[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
  EXPECT_EQ(read_plugin_file(folder.write("object.so", other)).problem,
            "is no shared library but another kind of ELF file (type 1)");
}

TEST(PluginFileReader, SurvivesEveryLength) {
  const PluginFolder folder;
  const std::string bytes = fla::testing::read_bytes(built("acme"));
  for (std::size_t size = 0; size < bytes.size(); size += size < 300 ? 1 : bytes.size() / 50)
    (void)read_plugin_file(folder.write("cut.so", bytes.substr(0, size)));
  EXPECT_FALSE(read_plugin_file(folder.write("cut.so", bytes.substr(0, bytes.size() - 1))).manifest);
}

TEST(PluginFileReader, SurvivesBytesThatMakeNoSense) {
  const PluginFolder folder;
  const std::string bytes = fla::testing::read_bytes(built("acme"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  fla::cases::Random random(3);
  for (int i = 0; i < 200; ++i) {
    std::string spoilt = bytes;
    const bool in_header = i % 2 == 0;
    const auto begin = static_cast<std::int64_t>(in_header ? 0 : header.e_shoff);
    const auto end = static_cast<std::int64_t>(in_header ? sizeof header : bytes.size());
    for (int n = 0; n < 4; ++n)
      spoilt[static_cast<std::size_t>(random.between(begin, end - 1))] = static_cast<char>(random.bits());
    (void)read_plugin_file(folder.write("spoilt.so", spoilt));
  }
}

TEST(PluginFileReader, TellsFilesThatAreNotThere) {
  EXPECT_EQ(read_plugin_file("/nothing/here.so").problem, "cannot be read: No such file or directory");
  EXPECT_EQ(read_plugin_file("/").problem, "is no file");
}

TEST(PluginFileReader, OpensNeitherPipesNorDevicesNorLinks) {
  const PluginFolder folder;
  const std::string pipe = folder / "pipe.so";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_plugin_file(pipe).problem, "is no file") << "opening it would wait for somebody who writes";
  EXPECT_EQ(read_plugin_file("/dev/null").problem, "is no file");
  std::filesystem::create_symlink(built("acme"), folder / "link.so");
  EXPECT_EQ(read_plugin_file(folder / "link.so").problem, "is no file");
}

TEST(PluginFileReader, SaysWhetherALibraryHasThePluginsFunction) {
  EXPECT_EQ(read_plugin_file(built("acme")).has_entry, true);
  EXPECT_EQ(read_plugin_file(built("defective")).has_entry, true);
  const PluginFile other = read_plugin_file(built("no_symbol"));
  EXPECT_EQ(other.has_entry, false);
  EXPECT_EQ(other.problem, "has no function fla_plugin");
  EXPECT_TRUE(other.is_other_library());
}

TEST(PluginFileReader, RefusesProgramHeadersThatWrapAround) {
  const PluginFolder folder;
  const std::string bytes = fla::testing::read_bytes(built("acme"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::size_t load = 0;  // the place of the second segment that is loaded
  int seen = 0, index = -1;
  for (int i = 0; i < header.e_phnum && seen < 2; ++i) {
    load = header.e_phoff + static_cast<std::size_t>(i) * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + load, sizeof segment);
    if (segment.p_type == PT_LOAD && ++seen == 2) index = i;
  }
  ASSERT_EQ(seen, 2);
  const auto with = [&](auto change) {
    std::string spoilt = bytes;
    Elf64_Phdr segment;
    std::memcpy(&segment, spoilt.data() + load, sizeof segment);
    change(segment);
    std::memcpy(spoilt.data() + load, &segment, sizeof segment);
    return read_plugin_file(folder.write("wraps.so", spoilt)).problem;
  };
  const std::string why = "is damaged: its program header " + std::to_string(index) + " makes no sense";
  EXPECT_EQ(with([](Elf64_Phdr&) {}), "");
  EXPECT_EQ(with([](Elf64_Phdr& its) { its.p_offset = ~std::uint64_t{0} - 15; }), why);
  EXPECT_EQ(with([](Elf64_Phdr& its) { its.p_filesz = its.p_memsz = ~std::uint64_t{0}; }), why);
  EXPECT_EQ(with([](Elf64_Phdr& its) { its.p_memsz = ~std::uint64_t{0}; }), why);
  EXPECT_EQ(with([](Elf64_Phdr& its) { its.p_filesz = its.p_memsz + 1; }), why);
  EXPECT_EQ(with([](Elf64_Phdr& its) { its.p_vaddr = 0; }), why) << "over the one before";
  std::string spoilt = bytes;
  header.e_phoff = ~std::uint64_t{0} - 100;
  std::memcpy(spoilt.data(), &header, sizeof header);
  EXPECT_EQ(read_plugin_file(folder.write("wraps.so", spoilt)).problem,
            "is cut short or damaged: its program headers cannot be read");
}

TEST(PluginFileReader, TellsAFileFromOneThatTookItsPlace) {
  using fla::dispatch::identity_of;
  const PluginFolder folder;
  const std::string path = folder.copy("acme");
  const auto identity = read_plugin_file(path).identity;
  EXPECT_EQ(identity_of(path), identity);
  folder.copy("acme", "other");
  std::filesystem::rename(folder / "other.so", path);
  EXPECT_FALSE(identity_of(path) == identity);
}

TEST(PluginVersion, MustHaveTheLibrarysMajorAndMinor) {
  using fla::dispatch::incompatible;
  const auto& tag = fla::dispatch::kToolchain;
  EXPECT_EQ(incompatible(tag, "0.1.0"), "");
  EXPECT_EQ(incompatible(tag, "0.1.9"), "");
  for (const char* version : {"0.2.0", "1.1.0", "", "0", "0.", "zero", "0.10"})
    EXPECT_EQ(incompatible(tag, version),
              std::string("was built for fla ") + version + ", this is fla 0.1.0");
}

}  // namespace
