#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

/// What a profiler puts into a process by NVTX_INJECTION64_PATH, here one that prints to standard output what
/// NVTX tells it.
namespace {

std::mutex mutex;

/// A handle that stands for a text.
template <class Handle>
Handle handle_of(const std::string& text) {
  static std::map<std::string, char> known;
  return reinterpret_cast<Handle>(&known[text]);
}
template <class Handle>
std::map<Handle, std::string>& texts() {
  static std::map<Handle, std::string> known;
  return known;
}
template <class Handle>
Handle remember(const char* what, const char* text) {
  const std::lock_guard lock(mutex);
  std::printf("%s %s\n", what, text);
  const Handle handle = handle_of<Handle>(text);
  texts<Handle>()[handle] = text;
  return handle;
}

nvtxDomainHandle_t domain_create(const char* name) { return remember<nvtxDomainHandle_t>("domain", name); }

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  return remember<nvtxStringHandle_t>("name", text);
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const std::lock_guard lock(mutex);
  const std::string text = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED
                               ? texts<nvtxStringHandle_t>()[attributes->message.registered]
                               : "a text that is not registered";
  std::printf("push %s: %s\n", texts<nvtxDomainHandle_t>()[domain].c_str(), text.c_str());
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  const std::lock_guard lock(mutex);
  std::printf("pop %s\n", texts<nvtxDomainHandle_t>()[domain].c_str());
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0 ||
      count <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  const auto set = [functions](unsigned id, auto* function) {
    *functions[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, &domain_create);
  set(NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
  set(NVTX_CBID_CORE2_DomainRangePushEx, &push);
  set(NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}
