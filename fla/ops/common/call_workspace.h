#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/core/workspace.h"

namespace fla {

/// The memory that a call on a GPU works in: the caller's, or some that is allocated in the order of the
/// call's stream and goes back so when this object goes, which may be right after the launches. Throws
/// InvalidArgument for a workspace of the caller's that does not do, and as allocate_on does.
class CallWorkspace {
 public:
  CallWorkspace(const Workspace& given, std::size_t bytes, Device device, Stream stream) {
    if (bytes == 0) return;
    if (given.data == nullptr && given.bytes == 0) {
      own_ = allocate_on(device, bytes, stream);
      data_ = own_.get();
      return;
    }
    if (given.bytes < bytes) {
      throw InvalidArgument("workspace", "expected at least " + std::to_string(bytes) + " bytes, got " +
                                             std::to_string(given.bytes));
    }
    if (given.data == nullptr)
      throw InvalidArgument("workspace",
                            "expected " + std::to_string(bytes) + " bytes of memory, got a null pointer");
    if (const auto off = reinterpret_cast<std::uintptr_t>(given.data) % 256; off != 0) {
      throw InvalidArgument("workspace", "expected memory aligned to 256 bytes, got an address " +
                                             std::to_string(off) + " bytes off");
    }
    data_ = given.data;
  }

  void* data() const { return data_; }

 private:
  std::shared_ptr<void> own_;
  void* data_ = nullptr;
};

}  // namespace fla
