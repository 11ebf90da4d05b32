#include "fla/dispatch/observe/explain.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tools/cases/random_case.h"

namespace {

using fla::DType;
using fla::KdaArgs;

/// Memory that ends the program when somebody reads it.
class Untouchable {
 public:
  Untouchable() : memory_(::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Untouchable() { ::munmap(memory_, kBytes); }
  Untouchable(const Untouchable&) = delete;
  Untouchable& operator=(const Untouchable&) = delete;
  void* data() const { return memory_; }

 private:
  static constexpr std::size_t kBytes = 1 << 20;
  void* memory_;
};

TEST(KdaExplain, TouchesNoData) {
  const Untouchable memory;
  for (const std::int64_t tokens : {1, 64}) {
    const KdaArgs args{.q = {memory.data(), DType::f32, {1, tokens, 2, 64}},
                       .k = {memory.data(), DType::f32, {1, tokens, 2, 64}},
                       .v = {memory.data(), DType::bf16, {1, tokens, 2, 64}},
                       .g = {memory.data(), DType::f32, {1, tokens, 2, 64}},
                       .beta = {memory.data(), DType::f32, {1, tokens, 2}},
                       .initial_state = {memory.data(), DType::f32, {1, 2, 64, 64}}};
    for (const char* function : {"kda", "chunk_kda", "fused_recurrent_kda"}) {
      EXPECT_FALSE(fla::explain("kda", function, args).selected.empty()) << function;
    }
    EXPECT_FALSE(fla::plan("kda", "chunk_kda", args).backend().empty()) << "a plan asks as little";
  }
}

TEST(KdaExplain, FrontDoorStandsForTheFunctionThatItPicks) {
  EXPECT_EQ(fla::explain("kda", "kda", fla::cases::make_kda_case({.T = 1}).args).function,
            "fused_recurrent_kda");
  EXPECT_EQ(fla::explain("kda", "kda", fla::cases::make_kda_case({.T = 256}).args).function, "chunk_kda");
}

TEST(KdaExplain, SaysOriginalWhenDispatchIsDisabled) {
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  const auto call = fla::cases::make_kda_case({.T = 4});
  EXPECT_EQ(fla::explain("kda", "kda", call.args).selected, "original");
  EXPECT_EQ(fla::plan("kda", "chunk_kda", call.args).backend(), "original");
}

TEST(KdaPlan, CallsWithOtherPointersAndScales) {
  const auto first = fla::cases::make_kda_case({.T = 20, .H = 1, .K = 16, .V = 16});
  auto second = fla::cases::make_kda_case({.T = 20, .H = 1, .K = 16, .V = 16, .seed = 2});
  const fla::Plan<KdaArgs> plan = fla::plan("kda", "chunk_kda", first.args);
  second.args.scale = 3.0f;
  const fla::KdaResult planned = plan(second.args), called = fla::chunk_kda(second.args);
  for (std::int64_t i = 0; i < planned.o.numel(); ++i)
    ASSERT_EQ(planned.o.as<float>()[i], called.o.as<float>()[i]);
}

}  // namespace
