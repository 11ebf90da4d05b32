#include <dlfcn.h>

#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "fla/dispatch/plugins/plugin.h"
#include "fla/ops/kda/kda.h"
#include "tests/plugins/events.h"

/// A plugin written by hand that has one thing wrong with it: what, is the name of the file that it was
/// copied to. It says nothing of itself before it is loaded.
namespace {

const fla_test::NotedLife life;

fla::PluginOp ops[] = {{"kda", sizeof(fla::KdaArgs)}};

std::string& file_name() {
  static std::string name;
  return name;
}

class Backend final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override {
    return {.name = file_name(), .package = "", .env_var = "", .priority = 90, .doc = ""};
  }
  fla::Verdict chunk_kda_verifier(const fla::KdaArgs& args) const override {
    const bool k96 = args.q.size(3) == 96 && args.v.size(3) == 96 && args.q.dtype() == fla::DType::f32;
    return k96 && file_name() == "k96" ? fla::accept() : fla::refuse("is for tests alone");
  }
  fla::KdaResult chunk_kda(const fla::KdaArgs& args) override { return fla::original::chunk_kda(args); }
};

void add(std::string_view op, std::string_view name, std::size_t more_bytes = 0) {
  static std::size_t more;
  more = more_bytes;
  const fla::dispatch::Registration registration(
      {op, name, []() -> std::unique_ptr<fla::BaseBackend> { return std::make_unique<Backend>(); },
       [] {
         auto slots = Backend::slots<Backend>();
         for (auto& slot : slots) slot.args_size += more;
         return slots;
       }});
}

const std::map<std::string, std::function<void()>> kRegistrations{
    {"throws", [] { throw std::runtime_error("no licence"); }},
    {"throws_int", [] { throw 7; }},
    {"registers_nothing", [] {}},
    {"duplicate", [] { add("kda", "cpu_simd"); }},
    {"twice",
     [] {
       add("kda", "twice");
       add("kda", "twice");
     }},
    {"original", [] { add("kda", "original"); }},
    {"unknown_op", [] { add("nothing", "unknown_op"); }},
    {"slot_size", [] { add("kda", "slot_size", 8); }},
};

const std::map<std::string, std::function<void(fla::PluginDescriptor&)>> kDescriptors{
    {"abi", [](auto& plugin) { plugin.abi_version = 7; }},
    {"toolchain", [](auto& plugin) { plugin.toolchain = "libc++ abi1 riscv64"; }},
    {"version", [](auto& plugin) { plugin.library_version = "0.2.0"; }},
    {"no_version", [](auto& plugin) { plugin.library_version = nullptr; }},
    {"no_name", [](auto& plugin) { plugin.name = ""; }},
    {"no_ops", [](auto& plugin) { plugin.op_count = 0; }},
    {"unnamed_op", [](auto&) { ops[0].name = nullptr; }},
    {"no_register", [](auto& plugin) { plugin.register_backends = nullptr; }},
    {"no_free", [](auto& plugin) { plugin.free = nullptr; }},
    {"size", [](auto&) { ops[0].args_size += 16; }},
    {"missing_op", [](auto&) { ops[0].name = "nothing"; }},
    {"missing_function", [](auto&) { ops[0].name = "kda.nothing"; }},
};

void register_backends() {
  fla_test::note("registered");
  const auto found = kRegistrations.find(file_name());
  if (found != kRegistrations.end()) return found->second();
  add("kda", file_name());
}

}  // namespace

extern "C" FLA_API const fla::PluginDescriptor* fla_plugin();
const fla::PluginDescriptor* fla_plugin() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&fla_plugin), &info);
  file_name() = std::filesystem::path(info.dli_fname).stem();
  if (file_name() == "returns_nothing") return nullptr;
  if (file_name() == "throws_early") throw std::runtime_error("on purpose");
  static fla::PluginDescriptor plugin{.abi_version = fla::kPluginAbi,
                                      .free = [](const fla::PluginDescriptor*) { fla_test::note("freed"); },
                                      .toolchain = fla::dispatch::kToolchain.data(),
                                      .library_version = fla::kVersion.data(),
                                      .name = file_name().c_str(),
                                      .ops = ops,
                                      .op_count = 1,
                                      .register_backends = register_backends};
  if (const auto found = kDescriptors.find(file_name()); found != kDescriptors.end()) found->second(plugin);
  return &plugin;
}
