#include "fla/dispatch/backend/verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace fla {

std::string ReasonValue::text() const {
  switch (kind_) {
    case Kind::integer: return std::to_string(integer_);
    case Kind::real: {
      std::array<char, 32> digits{};
      std::snprintf(digits.data(), digits.size(), "%g", real_);
      return digits.data();
    }
    case Kind::dtype: return std::string(name_of(static_cast<DType>(integer_)));
    case Kind::device:
      return to_string(
          Device{static_cast<DeviceType>(integer_ >> 32), static_cast<std::int16_t>(integer_ & 0xffff)});
    case Kind::text: return text_;
  }
  return "";
}

bool operator==(const ReasonValue& a, const ReasonValue& b) {
  return a.kind_ == b.kind_ && a.integer_ == b.integer_;
}

std::string Verdict::reason() const {
  if (ok()) return "";
  std::string sentence;
  std::size_t next = 0;
  for (std::string_view rest = text_; !rest.empty();) {
    const std::size_t mark = rest.find("{}");
    sentence += rest.substr(0, mark);
    if (mark == std::string_view::npos) break;
    if (next < count_) sentence += values_[next++].text();
    rest.remove_prefix(mark + 2);
  }
  return sentence;
}

bool operator==(const Verdict& a, const Verdict& b) {
  if (a.ok() || b.ok()) {
    return a.ok() == b.ok() && a.count_ == b.count_ && std::memcmp(a.carried_, b.carried_, a.count_) == 0;
  }
  return a.text_ == b.text_ && a.line_ == b.line_ && std::ranges::equal(a.values(), b.values());
}

}  // namespace fla
