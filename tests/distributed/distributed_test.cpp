#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/distributed/mpi.h"
#include "fla/distributed/ops.h"
#include "tests/core/error_text.h"
#include "tests/distributed/local_call.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random.h"
#include "tools/cases/with_op.h"

/// In the place of MPI's own, which it calls unless a test wants an error.
static bool mpi_fails = false;
extern "C" int MPI_Iallgatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                               const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                               MPI_Comm comm, MPI_Request* request) {
  if (mpi_fails) return MPI_ERR_OTHER;
  return PMPI_Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request);
}

/// Ops over the ranks that mpirun started. Every rank knows the whole batch, and holds its part of a call
/// over ranks to a call that is not cut.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;
using fla::cases::BackwardCase;
using fla::cases::CaseSpec;
using fla::cases::DataKind;
using fla::cases::relative_error;
using fla::distributed::Context;
using fla::distributed::Piece;
using fla::distributed::Placement;
using fla_test::bytes_of;
using fla_test::joined;
using fla_test::LocalCall;
using fla_test::Numbers;
using fla_test::starts_of;
using fla_test::states_of;
using fla_test::tokens_of;

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

Context context_of(const Numbers& cu_seqlens, const Placement& placement, MPI_Comm on = MPI_COMM_WORLD) {
  return {fla::distributed::make_mpi_transport(on), cu_seqlens, placement};
}

/// Placements for as many ranks as there are: with parts of equal lengths, two a rank, of any lengths, and
/// with ranks that have nothing.
std::vector<std::pair<std::string, Placement>> placements(std::int64_t tokens) {
  const int ranks = world_size();
  std::vector<std::pair<std::string, Placement>> all{{"contiguous", Placement::contiguous(tokens, ranks)},
                                                     {"zigzag", Placement::zigzag(tokens, ranks)}};
  Placement last{{0, 0, tokens}, {0, ranks - 1}};
  all.emplace_back("all on the last rank", last);
  Placement uneven{{0, 1, 2, tokens / 3, tokens / 3, tokens / 2, tokens}, {}};
  for (int i = 0; i < 6; ++i) uneven.ranks.push_back((5 * i + 1) % ranks);
  all.emplace_back("uneven", uneven);
  return all;
}

template <class Args>
struct Op {
  using ForwardRun = fla::distributed::Result (*)(Context&, const Args&);
  using BackwardRun = fla::RecurrenceGradients (*)(Context&, const typename Args::Backward&);
  using Functions = fla::cases::Functions<Args>;

  /// The relative error of what all ranks have together.
  static void expect_close(const Tensor& found, const Tensor& expected, const std::string& what) {
    EXPECT_EQ(found.numel(), expected.numel()) << what;
    double sums[2] = {};  // the squares of differences and of what is expected
    for (std::int64_t i = 0; i < std::min(found.numel(), expected.numel()); ++i) {
      const double right = fla::cases::element(expected, i), error = fla::cases::element(found, i) - right;
      sums[0] += error * error, sums[1] += right * right;
    }
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_LE(std::sqrt(sums[0]), 2e-6 * std::sqrt(sums[1])) << what;
  }

  static void expect_one_rank(ForwardRun forward, BackwardRun backward, const CaseSpec<Args>& spec,
                              const std::string& data) {
    const BackwardCase<Args> made(spec);
    const Numbers starts = starts_of(spec.lengths);
    const fla::RecurrenceResult whole = Functions::chunk(made.forward.args);
    const fla::RecurrenceGradients gradients = Functions::backward(made.args);
    for (const auto& [name, placement] : placements(starts.back())) {
      SCOPED_TRACE(std::string(Args::kOp.name) + ", " + data + ", " + name);
      Context context = context_of(starts, placement);
      const LocalCall<Args> call(context, made.forward.args);
      const fla::distributed::Result result = forward(context, call.args);
      expect_close(result.o, tokens_of(context, whole.o), "o");
      std::vector<std::pair<std::int64_t, std::int64_t>> here, there;
      for (std::size_t i = 0; i < context.pieces().size(); ++i) {
        if (!context.pieces()[i].ends) continue;
        const std::int64_t sequence = context.pieces()[i].sequence, piece = static_cast<std::int64_t>(i);
        here.emplace_back(piece, piece + 1), there.emplace_back(sequence, sequence + 1);
      }
      expect_close(joined(result.final_state, 0, here), joined(whole.final_state, 0, there), "final_state");

      LocalCall<typename Args::Backward> back(context, made.args);
      if (result.initial_state.defined()) back.args.initial_state = result.initial_state;
      const fla::RecurrenceGradients found = backward(context, back.args);
      const auto expect_tokens = [&](const Tensor& gradient, const Tensor& all, const char* what) {
        if (all.defined()) expect_close(gradient, tokens_of(context, all), what);
      };
      expect_tokens(found.dq, gradients.dq, "dq");
      expect_tokens(found.dk, gradients.dk, "dk");
      expect_tokens(found.dv, gradients.dv, "dv");
      expect_tokens(found.dg, gradients.dg, "dg");
      expect_tokens(found.dbeta, gradients.dbeta, "dbeta");
      expect_tokens(found.da, gradients.da, "da");
      expect_tokens(found.db, gradients.db, "db");
      here.clear(), there.clear();
      for (std::size_t i = 0; i < context.pieces().size(); ++i) {
        if (!context.pieces()[i].begins) continue;
        const std::int64_t sequence = context.pieces()[i].sequence, piece = static_cast<std::int64_t>(i);
        here.emplace_back(piece, piece + 1), there.emplace_back(sequence, sequence + 1);
      }
      if (gradients.dinitial_state.defined()) {
        expect_close(joined(found.dinitial_state, 0, here), joined(gradients.dinitial_state, 0, there),
                     "dinitial_state");
      }
    }
  }

  static void expect_all(ForwardRun forward, BackwardRun backward) {
    CaseSpec<Args> spec{.H = 1, .HV = 2, .K = 16, .V = 12, .lengths = {40, 0, 150, 3, 37}};
    for (const DataKind data : {DataKind::random, DataKind::slow, DataKind::resets}) {
      spec.data = data;
      expect_one_rank(forward, backward, spec, std::string(fla::cases::name_of(data)));
    }
    spec.options.state_v_first = true;
    expect_one_rank(forward, backward, spec, "states of [V, K]");
    expect_one_rank(forward, backward, {.H = 1, .K = 16, .V = 16, .lengths = {90}, .initial_state = false},
                    "one sequence without a state");
  }
};

#define FLA_OP(NAME, ARGS)                                                                                  \
  TEST(Distributed, NAME##_agrees_with_one_rank) {                                                          \
    Op<fla::ARGS>::expect_all(&fla::distributed::chunk_##NAME, &fla::distributed::chunk_##NAME##_backward); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// A call of kda over one long sequence.
struct LongKda {
  explicit LongKda(std::int64_t tokens = 120)
      : starts{0, tokens},
        made({.H = 1, .HV = 2, .K = 16, .V = 12, .lengths = {tokens}, .data = DataKind::slow}) {}
  Numbers starts;
  BackwardCase<fla::KdaArgs> made;
};

TEST(Distributed, SameCutsHaveTheSameBitsWhereverTheyAre) {
  const LongKda kda;
  const Numbers cuts{0, 31, 32, 80, 120};
  Context alone = context_of(kda.starts, {cuts, {0, 0, 0, 0}}, MPI_COMM_SELF);
  const fla::distributed::Result whole =
      fla::distributed::chunk_kda(alone, LocalCall<fla::KdaArgs>(alone, kda.made.forward.args).args);
  LocalCall<fla::KdaBackwardArgs> back(alone, kda.made.args);
  back.args.initial_state = whole.initial_state;
  const fla::RecurrenceGradients gradients = fla::distributed::chunk_kda_backward(alone, back.args);
  for (const int step : {0, 1, 3}) {
    Placement placement{cuts, {}};
    for (int i = 0; i < 4; ++i) placement.ranks.push_back((step * i + step) % world_size());
    Context context = context_of(kda.starts, placement);
    const auto expect_bits = [&](const Tensor& found, const Tensor& all) {
      const Tensor expected = tokens_of(context, all);
      ASSERT_EQ(bytes_of(found), bytes_of(expected));
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), static_cast<std::size_t>(bytes_of(found))), 0);
    };
    const LocalCall<fla::KdaArgs> call(context, kda.made.forward.args);
    const fla::distributed::Result result = fla::distributed::chunk_kda(context, call.args);
    expect_bits(result.o, whole.o);
    LocalCall<fla::KdaBackwardArgs> local(context, kda.made.args);
    local.args.initial_state = result.initial_state;
    const fla::RecurrenceGradients found = fla::distributed::chunk_kda_backward(context, local.args);
    expect_bits(found.dq, gradients.dq);
    expect_bits(found.dg, gradients.dg);
    expect_bits(found.dbeta, gradients.dbeta);
  }
}

TEST(Distributed, ARankGivesOneSummaryHoweverManyTokensItHas) {
  const std::int64_t HV = 2, K = 16, V = 12, bytes = HV * K * (V + K) * 4;
  for (const std::int64_t tokens : {60, 300}) {
    const LongKda kda(tokens);
    Context context = context_of(kda.starts, Placement::contiguous(tokens, world_size()));
    const LocalCall<fla::KdaArgs> call(context, kda.made.forward.args);
    const fla::distributed::Result result = fla::distributed::chunk_kda(context, call.args);
    EXPECT_EQ(context.bytes_sent(), world_rank() + 1 < world_size() ? bytes : 0);
    LocalCall<fla::KdaBackwardArgs> back(context, kda.made.args);
    if (result.initial_state.defined()) back.args.initial_state = result.initial_state;
    const std::int64_t before = context.bytes_sent();
    (void)fla::distributed::chunk_kda_backward(context, back.args);
    EXPECT_EQ(context.bytes_sent() - before, world_rank() > 0 ? bytes : 0);
  }
  const BackwardCase<fla::GlaArgs> gla({.H = 1, .HV = 2, .K = 16, .V = 12, .lengths = {60}});
  Context context = context_of({0, 60}, Placement::contiguous(60, world_size()));
  (void)fla::distributed::chunk_gla(context, LocalCall<fla::GlaArgs>(context, gla.forward.args).args);
  EXPECT_EQ(context.bytes_sent(), world_rank() + 1 < world_size() ? HV * K * (V + 1) * 4 : 0);
}

TEST(Distributed, WholeSequencesOnARankAreNotExchanged) {
  const BackwardCase<fla::KdaArgs> made({.H = 1, .HV = 2, .K = 16, .V = 12, .lengths = {10, 10, 10, 10}});
  Placement placement{{0, 10, 20, 30, 40}, {}};
  for (int i = 0; i < 4; ++i) placement.ranks.push_back(i % world_size());
  Context context = context_of({0, 10, 20, 30, 40}, placement);
  (void)fla::distributed::chunk_kda(context, LocalCall<fla::KdaArgs>(context, made.forward.args).args);
  EXPECT_EQ(context.bytes_sent(), 0);
}

TEST(Distributed, GradientsOfParametersAreSumsOverRanks) {
  CaseSpec<fla::KdaArgs> spec{.H = 1, .HV = 2, .K = 16, .V = 12, .lengths = {120}};
  spec.options.use_gate_in_kernel = true;
  const BackwardCase<fla::KdaArgs> made(spec);
  const fla::RecurrenceGradients whole = fla::chunk_kda_backward(made.args);
  Context context = context_of({0, 120}, Placement::contiguous(120, world_size()));
  const fla::distributed::Result result =
      fla::distributed::chunk_kda(context, LocalCall<fla::KdaArgs>(context, made.forward.args).args);
  LocalCall<fla::KdaBackwardArgs> back(context, made.args);
  back.args.initial_state = result.initial_state;
  const fla::RecurrenceGradients found = fla::distributed::chunk_kda_backward(context, back.args);
  const Tensor sum = Tensor::zeros({2}, DType::f32);
  MPI_Allreduce(found.dA_log.data(), sum.data(), 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_LE(relative_error(sum, whole.dA_log), 2e-6);
}

/// A tensor with one more entry of `value` at the end of its last axis.
Tensor with_column(const TensorView& tensor, float value) {
  const int last = tensor.rank() - 1;
  Numbers shape(tensor.shape().begin(), tensor.shape().end());
  const std::int64_t size = shape.back()++;
  Tensor made = Tensor::empty(shape, tensor.dtype());
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    const std::int64_t row = i / (size + 1), column = i % (size + 1);
    made.as<float>()[i] = column < size ? tensor.as<float>()[row * size + column] : value;
  }
  EXPECT_EQ(made.size(last), size + 1);
  return made;
}

/// What how-to/ranks.md says instead of normalize.
TEST(Distributed, AColumnOfOnesHasTheSumsThatNormalizeDividesBy) {
  CaseSpec<fla::LinearAttnArgs> spec{.H = 2, .K = 16, .V = 12, .lengths = {50, 70}};
  spec.options.normalize = true;
  const BackwardCase<fla::LinearAttnArgs> made(spec);
  const Tensor whole = fla::chunk_linear_attn(made.forward.args).o;
  fla::LinearAttnArgs args = made.forward.args;
  args.normalize = false;
  const Tensor v = with_column(args.v, 1), state = with_column(args.initial_state, 0);
  args.v = v, args.initial_state = state;
  Context context = context_of({0, 50, 120}, Placement::contiguous(120, world_size()));
  const Tensor found =
      fla::distributed::chunk_linear_attn(context, LocalCall<fla::LinearAttnArgs>(context, args).args).o;
  const Tensor expected = tokens_of(context, whole), divided = Tensor::empty(expected.shape(), DType::f32);
  for (std::int64_t i = 0; i < divided.numel(); ++i) {
    const float* const row = found.as<float>() + i / 12 * 13;
    divided.as<float>()[i] = row[i % 12] / (row[12] + 1e-10f);
  }
  Op<fla::LinearAttnArgs>::expect_close(divided, expected, "o");
}

Tensor random_numbers(const Numbers& shape, DType dtype, std::uint64_t seed) {
  Tensor tensor = Tensor::empty(shape, dtype);
  fla::cases::Random random(seed);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    fla::cases::store(tensor, i, static_cast<double>(random.normal()));
  return tensor;
}

TEST(Distributed, ShortConvHasTheBitsOfOneRank) {
  const Numbers starts{0, 3, 3, 40, 41};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t W : {2, 4}) {
      const Tensor x = random_numbers({1, 41, 6}, dtype, 1), weight = random_numbers({6, W}, dtype, 2),
                   state = random_numbers({4, 6, W - 1}, dtype, 3),
                   index = Tensor::over(TensorView(starts.data(), DType::i64, {5}));
      for (const bool given : {false, true}) {
        fla::ShortConvArgs args{.x = x, .weight = weight};
        if (given) args.initial_state = state;
        args.cu_seqlens = index;
        args.output_final_state = true;
        const fla::ShortConvResult whole = fla::short_conv(args);
        std::vector<std::pair<std::string, Placement>> all = placements(41);
        Placement tokens{{0, 2, 4, 5, 6, 7, 20, 41}, {}};  // parts that are shorter than the convolution
        for (int i = 0; i < 7; ++i) tokens.ranks.push_back(i % world_size());
        all.emplace_back("short parts", tokens);
        for (const auto& [name, placement] : all) {
          SCOPED_TRACE(name + ", W=" + std::to_string(W) + (given ? ", a state" : ""));
          Context context = context_of(starts, placement);
          fla::ShortConvArgs local = args;
          const Tensor mine = tokens_of(context, x), states = states_of(context, state);
          local.x = mine, local.cu_seqlens = {};
          if (given) local.initial_state = states;
          const fla::ShortConvResult result = fla::distributed::short_conv(context, local);
          const Tensor expected = tokens_of(context, whole.o);
          ASSERT_EQ(result.o.numel(), expected.numel());
          EXPECT_EQ(
              std::memcmp(result.o.data(), expected.data(), static_cast<std::size_t>(bytes_of(expected))), 0);
          const auto given_away =
              std::ranges::count_if(context.pieces(), [](const Piece& piece) { return !piece.ends; });
          EXPECT_EQ(context.bytes_sent(), placement.ranks.size() > 1 ? given_away * 6 * (W - 1) * 4 : 0);
        }
      }
    }
  }
}

/// Every rank has the same wrong call, so that none waits for another.
TEST(DistributedRefuses, BadInput) {
  const LongKda kda;
  Context context = context_of(kda.starts, Placement::contiguous(120, world_size()));
  const LocalCall<fla::KdaArgs> call(context, kda.made.forward.args);
  const auto refused = [&](auto change) {
    fla::KdaArgs args = call.args;
    change(args);
    return fla_test::error_text<fla::InvalidArgument>(
        [&] { (void)fla::distributed::chunk_kda(context, args); });
  };
  const Tensor index = Tensor::zeros({2}, DType::i64), half = Tensor::zeros({1, 2, 16, 12}, DType::bf16),
               more = Tensor::zeros({1, 121, 1, 16}, DType::f32);
  EXPECT_EQ(refused([&](fla::KdaArgs& args) { args.cu_seqlens = index; }),
            "kda: cu_seqlens: expected none in a call over ranks, got a tensor");
  EXPECT_EQ(refused([&](fla::KdaArgs& args) { args.state_indices = index; }),
            "kda: state_indices: expected none in a call over ranks, got a tensor");
  EXPECT_EQ(refused([&](fla::KdaArgs& args) { args.initial_state = half; }),
            "kda: initial_state: expected dtype f32, got bf16");
  EXPECT_EQ(refused([&](fla::KdaArgs& args) { args.q = more; }),
            "kda: q: expected B=1 and T=" + std::to_string(context.tokens()) + ", the tokens of rank " +
                std::to_string(world_rank()) + ", got shape [1, 121, 1, 16]");
  EXPECT_EQ(refused([&](fla::KdaArgs& args) { args.beta = {}; }).substr(0, 32),
            "kda: beta: expected a tensor of ");
  const BackwardCase<fla::LinearAttnArgs> linear({.H = 1, .K = 8, .V = 8, .lengths = {120}});
  LocalCall<fla::LinearAttnArgs> sums(context, linear.forward.args);
  sums.args.normalize = true;
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>(
                [&] { (void)fla::distributed::chunk_linear_attn(context, sums.args); }),
            "linear_attn: normalize: expected false: its sums go beyond the state, got true");
  EXPECT_EQ(context.bytes_sent(), 0);
}

/// A transport whose blocks would be on a GPU, which nobody asks for any.
class OnAGpu final : public fla::distributed::Transport {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  fla::Device device() const override { return fla::Device::cuda(1); }
  Tensor all_gather(Tensor, std::span<const std::int64_t>, fla::Stream) override {
    ADD_FAILURE() << "expected no exchange";
    return {};
  }
};

TEST(DistributedRefuses, TensorsThatAreNotWhereTheTransportIs) {
  const LongKda kda;
  Context context(std::make_unique<OnAGpu>(), kda.starts, {{0, 31, 120}, {0, 0}});
  const auto expected = [](const char* of, const char* shape) {
    return std::string(of) + ": expected a tensor on cuda:1, where the context's transport is, got f32" +
           shape + " on cpu";
  };
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] {
              (void)fla::distributed::chunk_kda(context,
                                                LocalCall<fla::KdaArgs>(context, kda.made.forward.args).args);
            }),
            expected("kda: q", "[1, 120, 1, 16]"));
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] {
              (void)fla::distributed::chunk_kda_backward(
                  context, LocalCall<fla::KdaBackwardArgs>(context, kda.made.args).args);
            }),
            expected("kda: q", "[1, 120, 1, 16]"));
  const Tensor x = random_numbers({1, 120, 6}, DType::f32, 1), weight = random_numbers({6, 4}, DType::f32, 2);
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>(
                [&] { (void)fla::distributed::short_conv(context, {.x = x, .weight = weight}); }),
            expected("short_conv: x", "[1, 120, 6]"));
}

/// Ranks that are told of an error by MPI, as some MPI libraries do when another one dies, name those that
/// are told nothing.
TEST(DistributedFailure, AnErrorOfMpiNamesTheRanksThatDoNotCome) {
  const LongKda kda;
  const std::string prefix = "fla::distributed on rank " + std::to_string(world_rank()) +
                             ": MPI_Iallgatherv: MPI_ERR_OTHER: known error not in list";
  for (const int missing : {world_size() - 1, world_size()}) {  // nobody
    Context context(fla::distributed::make_mpi_transport(MPI_COMM_WORLD,
                                                         {.time_limit = std::chrono::duration<double>(0.5)}),
                    kda.starts, Placement::contiguous(120, world_size()));
    if (world_size() > 1 && world_rank() != missing) {
      const LocalCall<fla::KdaArgs> call(context, kda.made.forward.args);
      mpi_fails = true;
      const std::string text = fla_test::error_text<fla::BackendError>(
          [&] { (void)fla::distributed::chunk_kda(context, call.args); });
      mpi_fails = false;
      EXPECT_EQ(text, missing == world_size()
                          ? prefix
                          : prefix + "; rank " + std::to_string(missing) + " did not come");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// The last test: the exchange that the missing rank never joins stays under way.
TEST(DistributedFailure, ARankThatDoesNotComeIsNamed) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const LongKda kda;
  const int missing = world_size() - 1;
  Context context(fla::distributed::make_mpi_transport(MPI_COMM_WORLD,
                                                       {.time_limit = std::chrono::duration<double>(0.5)}),
                  kda.starts, Placement::contiguous(120, world_size()));
  const LocalCall<fla::KdaArgs> call(context, kda.made.forward.args);
  if (world_rank() != missing) {
    const std::string expected = "fla::distributed on rank " + std::to_string(world_rank()) + ": rank " +
                                 std::to_string(missing) + " did not come to the exchange within 0.500000 s";
    for (const char* when : {"at first", "at every later call"}) {
      EXPECT_EQ(fla_test::error_text<fla::BackendError>(
                    [&] { (void)fla::distributed::chunk_kda(context, call.args); }),
                expected)
          << when;
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
