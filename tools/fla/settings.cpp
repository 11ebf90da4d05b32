#include "tools/fla/settings.h"

#include "fla/core/errors.h"

namespace fla::command {

Settings parse_settings(const std::vector<std::string>& words, const std::string& absent) {
  Settings settings;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    settings.emplace_back(word.substr(0, equals),
                          equals == std::string::npos ? absent : word.substr(equals + 1));
  }
  return settings;
}

DType parse_dtype(const std::string& name) {
  const std::optional<DType> type = dtype_from_name(name);
  if (!type || !kFloatTypes.contains(*type)) {
    throw InvalidArgument("dtype", "expected f32, bf16 or f16, got '" + name + "'");
  }
  return *type;
}

Device parse_device(const std::string& name) {
  const std::optional<Device> device = device_from_name(name);
  if (!device) throw InvalidArgument("device", "expected cpu, cuda or cuda:N, got '" + name + "'");
  return *device;
}

}  // namespace fla::command
