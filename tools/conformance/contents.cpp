#include "tools/conformance/contents.h"

#include "tools/cases/accuracy.h"
#include "tools/cases/offsets.h"

namespace fla::conformance {
namespace {

double number(Contents contents, double factor, cases::Random& random) {
  const auto uniform = [&] { return static_cast<double>(random.uniform()); };
  switch (contents) {
    case Contents::decays: return -0.5 * uniform();
    case Contents::shares: return 0.2 + 0.7 * uniform();
    case Contents::positive: return factor * (0.2 + uniform());
    case Contents::normal: break;
  }
  return factor * static_cast<double>(random.normal());
}

}  // namespace

void fill_with(Contents contents, double factor, const TensorView& tensor, cases::Random& random) {
  cases::for_each_offset(
      tensor, [&](std::int64_t offset) { cases::store(tensor, offset, number(contents, factor, random)); });
}

}  // namespace fla::conformance
