#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "tests/gpu/gpu_agreement.h"
#include "tools/cases/random_case.h"

/// Calls that run at the same time, on streams and threads of their own.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla::conformance::same_bits;
using fla_test::CudaStream;
using fla_test::kEveryWay;
using fla_test::kGpu;

KdaSpec some_spec(std::uint64_t seed, std::int64_t tokens) {
  return {.B = 2,
          .T = tokens,
          .H = 4,
          .K = 128,
          .V = 128,
          .dtype = DType::bf16,
          .data = fla::cases::DataKind::mixed,
          .seed = seed};
}

/// A call on a stream of its own, and its answer when it ran alone.
class Caller {
 public:
  Caller(std::uint64_t seed, std::int64_t tokens) : made_(make_kda_case(some_spec(seed, tokens))) {
    made_.args.stream = stream_.stream();
    call_ = std::make_unique<DeviceCall<fla::KdaArgs>>(made_.args, kGpu);
    for (const auto& [name, run] : kEveryWay) alone_.push_back(call_->bring_back(run(call_->args())));
  }

  /// Puts a call on the stream, and waits for nothing.
  KdaResult start(std::size_t way) const { return kEveryWay[way].second(call_->args()); }
  KdaResult finish(const KdaResult& result) const { return call_->bring_back(result); }
  bool is_right(std::size_t way, const KdaResult& result) const { return same_bits(alone_[way], result); }

 private:
  KdaCase made_;
  CudaStream stream_;
  std::unique_ptr<DeviceCall<fla::KdaArgs>> call_;
  std::vector<KdaResult> alone_;
};

class StreamsOnGpu : public fla_test::OnGpu<testing::TestWithParam<int>> {};

TEST_P(StreamsOnGpu, CallsOnTwoStreamsAtOnceHaveTheBitsThatTheyHaveAlone) {
  const Caller a(1, GetParam()), b(2, GetParam());
  for (std::size_t way = 0; way < std::size(kEveryWay); ++way) {
    std::vector<KdaResult> from_a, from_b;
    for (int i = 0; i < 20; ++i) {
      from_a.push_back(a.start(way));
      from_b.push_back(b.start(way));
    }
    for (std::size_t i = 0; i < from_a.size(); ++i) {
      EXPECT_TRUE(a.is_right(way, a.finish(from_a[i]))) << kEveryWay[way].first << " " << i;
      EXPECT_TRUE(b.is_right(way, b.finish(from_b[i]))) << kEveryWay[way].first << " " << i;
    }
  }
}

TEST_P(StreamsOnGpu, CallsOfTwoThreadsHaveTheBitsThatTheyHaveAlone) {
  std::array<std::string, 2> wrong;
  std::array<std::unique_ptr<Caller>, 2> callers{std::make_unique<Caller>(3, GetParam()),
                                                 std::make_unique<Caller>(4, GetParam())};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        for (std::size_t i = 0; i < 50; ++i) {
          const std::size_t way = i % std::size(kEveryWay);
          if (!callers[thread]->is_right(way, callers[thread]->finish(callers[thread]->start(way))))
            wrong[thread] += std::string(kEveryWay[way].first) + " has other bits; ";
        }
      } catch (const std::exception& error) {
        wrong[thread] += error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong[0], "");
  EXPECT_EQ(wrong[1], "");
}

INSTANTIATE_TEST_SUITE_P(Lengths, StreamsOnGpu, testing::Values(1, 300),
                         [](const auto& test) { return "T" + std::to_string(test.param); });

}  // namespace
