#include "fla/dispatch/call/trace.h"

#include <optional>
#include <string>

#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/core/privilege.h"

#ifdef FLA_HAS_NVTX
#include <nvtx3/nvToolsExt.h>

#include <atomic>

#include "fla/dispatch/call/function.h"
#endif

namespace fla::dispatch {

#ifdef FLA_HAS_NVTX

namespace {

constexpr bool kHasNvtx = true;

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("fla");
  return made;
}

/// The name of a pair of function and backend, known to the profiler by its handle. The list only grows.
struct Named {
  const FunctionBase* function;
  std::string backend;
  nvtxStringHandle_t handle;
  const Named* next;
};
constinit std::atomic<const Named*> names{nullptr};

nvtxStringHandle_t handle_of(const FunctionBase& function, std::string_view backend) {
  const Named* first = names.load(std::memory_order_acquire);
  for (const Named* named = first; named != nullptr; named = named->next) {
    if (named->function == &function && named->backend == backend) return named->handle;
  }
  const std::string text = "fla " + std::string(function.op()) + "." + std::string(function.name()) + " -> " +
                           std::string(backend);
  auto* made =
      new Named{&function, std::string(backend), nvtxDomainRegisterStringA(domain(), text.c_str()), first};
  // Two threads that come here at once may both put the pair in: the same name under two handles does no
  // harm.
  while (!names.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return made->handle;
}

}  // namespace

TraceRange::TraceRange(const FunctionBase& function, std::string_view backend) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = handle_of(function, backend);
  nvtxDomainRangePushEx(domain(), &attributes);
}

TraceRange::~TraceRange() { nvtxDomainRangePop(domain()); }

#else

namespace {
constexpr bool kHasNvtx = false;
}

TraceRange::TraceRange(const FunctionBase&, std::string_view) {}
TraceRange::~TraceRange() = default;

#endif

bool tracing() {
  const std::optional<std::string> value = environment("FLA_NVTX");
  if (!value) return kHasNvtx && environment("NVTX_INJECTION64_PATH").has_value();
  const bool wanted = parse_switch("FLA_NVTX", *value);
  if (wanted && !kHasNvtx) {
    throw ConfigError("FLA_NVTX: expected 0, since NVTX was left out of this build, got '" + *value + "'");
  }
  // NVTX would load what NVTX_INJECTION64_PATH names, whoever set it.
  return wanted && !is_privileged();
}

}  // namespace fla::dispatch
