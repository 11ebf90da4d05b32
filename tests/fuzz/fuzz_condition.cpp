#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fla/dispatch/rules/condition.h"
#include "fla/ops/kda/kda.h"
#include "tests/fuzz/fuzz.h"

namespace fla_test {
namespace {

using fla::dispatch::Condition;
using fla::dispatch::ConditionError;
using fla::dispatch::Decision;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::vector<fla::KdaArgs> calls() {
  using fla::DType;
  std::vector<fla::KdaArgs> made(1);  // with nothing in it at all
  for (const std::int64_t T : {0, 1, 64, 8192}) {
    fla::KdaArgs args;
    args.q = args.k = fla::TensorView(nullptr, T % 2 == 0 ? DType::bf16 : DType::f32, {1, T, 2, 64});
    args.v = fla::TensorView(nullptr, args.q.dtype(), {1, T, T == 64 ? 4 : 2, 128});
    if (T == 64) args.cu_seqlens = fla::TensorView(nullptr, DType::i32, {4});
    if (T == 1) args.scale = 0.5f;
    args.safe_gate = T == 8192;
    made.push_back(args);
  }
  return made;
}

int first_of(const std::vector<const Condition*>& rules, const fla::KdaArgs& args) {
  return Decision(rules, fla::KdaArgs::arguments()).first(&args);
}

}  // namespace

void fuzz_condition(std::string_view text) {
  static const std::vector<fla::KdaArgs> made = calls();
  try {
    const Condition condition = fla::dispatch::parse_condition(text);
    check_condition(condition, fla::KdaArgs::arguments());
    std::vector<const Condition*> alone{&condition}, behind{&condition, nullptr};
    for (const fla::KdaArgs& args : made) {
      const int first = first_of(alone, args);
      demand(first == 0 || first == -1, "a rule that does not exist holds");
      demand(first_of(behind, args) == (first == 0 ? 0 : 1), "a rule behind it changes whether it holds");
    }
    try {
      const Condition opposite = fla::dispatch::parse_condition("not (" + std::string(text) + ")");
      check_condition(opposite, fla::KdaArgs::arguments());
      const std::vector<const Condition*> turned{&opposite};
      for (const fla::KdaArgs& args : made) {
        demand(first_of(turned, args) != first_of(alone, args), "a condition and its opposite agree");
      }
    } catch (const ConditionError&) {
      // One level deeper: it may be too deep.
    }
  } catch (const ConditionError& error) {
    demand(error.offset() <= text.size(), "an error lies behind the end");
    demand(error.what()[0] != '\0', "an error says nothing");
  }
}

}  // namespace fla_test
