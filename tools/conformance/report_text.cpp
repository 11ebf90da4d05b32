#include "tools/conformance/report_text.h"

#include <cstdint>
#include <cstring>

#include "fla/core/errors.h"

namespace fla::conformance {

std::string packed(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const auto length = static_cast<std::uint64_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += text;
  }
  return bytes;
}

std::vector<std::string> unpacked_texts(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    std::uint64_t length = 0;
    if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
    if (bytes.size() < sizeof length || bytes.size() - sizeof length < length)
      throw Error("a child process sent half a message");
    texts.emplace_back(bytes.substr(sizeof length, length));
    bytes.remove_prefix(sizeof length + length);
  }
  return texts;
}

std::string packed(const Report& report) {
  return packed(std::vector{report.op, report.backend, report.check, report.skipped,
                            std::to_string(report.calls), std::to_string(report.refused),
                            packed(report.failures), packed(report.refusals), packed(report.not_shown)});
}

Report unpacked_report(std::string_view bytes) {
  const std::vector<std::string> parts = unpacked_texts(bytes);
  if (parts.size() != 9) throw Error("a child process sent no report");
  return {.op = parts[0],
          .backend = parts[1],
          .check = parts[2],
          .skipped = parts[3],
          .calls = std::stoll(parts[4]),
          .refused = std::stoll(parts[5]),
          .failures = unpacked_texts(parts[6]),
          .refusals = unpacked_texts(parts[7]),
          .not_shown = unpacked_texts(parts[8])};
}

}  // namespace fla::conformance
