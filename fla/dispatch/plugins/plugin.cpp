#include "fla/dispatch/plugins/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace fla {

std::string library_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&library_folder), &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? "" : path.parent_path().string();
}

}  // namespace fla
