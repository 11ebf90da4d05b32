#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backends/flash_kda/layout.cuh"
#include "fla/core/half.h"
#include "tests/emulation/flash_forward.h"
#include "tools/cases/accuracy.h"

/// Prep alone: the operators of every chunk against double. An error here says which operator is wrong, and
/// where.
namespace fla::emulation {
namespace {

using cases::DataKind;
using flash_kda::kChunk;
using flash_kda::kHead;
using flash_kda::Packet;

using Matrix = std::vector<std::vector<double>>;
Matrix zeros(int rows, int columns) {
  return Matrix(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(columns), 0.0));
}

struct Operators {
  Matrix kt, qh, kr, b, gamma;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Tokens [begin, begin + kChunk) of the only sequence and head of a case. Rows after its end are zeros that
/// nothing decays.
///     K~, Q~: decayed from the chunk's start; Kr: to its end.  M_ij = q_i D_ij k_j, L_ij = beta_i k_i D_ij
///     k_j below the diagonal, T2 = (I + L)^-1 diag(beta).  The packet has K~, 16 (Q~ - B K~), T2^T Kr and B
///     = M T2.
Operators operators(const KdaArgs& args, std::int64_t begin) {
  Matrix q = zeros(kChunk, kHead), k = q, decay = q;  // decay: logarithms, summed up
  std::vector<double> beta(kChunk, 0.0);
  const double scale = 1 / std::sqrt(static_cast<double>(kHead));
  for (std::size_t i = 0; i < kChunk; ++i) {
    if (i > 0) decay[i] = decay[i - 1];
    const std::int64_t t = begin + static_cast<std::int64_t>(i);
    if (t >= args.q.size(1)) continue;
    const auto row = [&](const TensorView& x, std::size_t c) {
      return cases::element(x, t * x.stride(1) + static_cast<std::int64_t>(c) * x.stride(3));
    };
    double q2 = 1e-6, k2 = 1e-6;
    for (std::size_t c = 0; c < kHead; ++c) {
      q[i][c] = row(args.q, c), k[i][c] = row(args.k, c);
      q2 += q[i][c] * q[i][c], k2 += k[i][c] * k[i][c];
      double g = row(args.g, c);
      if (args.use_gate_in_kernel) {
        const double rate = std::exp(cases::element(args.A_log, 0));
        const double x = g + cases::element(args.dt_bias, static_cast<std::int64_t>(c));
        g = args.lower_bound ? static_cast<double>(*args.lower_bound) * sigmoid(rate * x)
                             : -rate * (x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
      }
      decay[i][c] += g;
    }
    beta[i] = cases::element(args.beta, t * args.beta.stride(1));
    if (args.use_beta_sigmoid_in_kernel) beta[i] = sigmoid(beta[i]);
    for (std::size_t c = 0; c < kHead; ++c) {
      q[i][c] *= scale * (args.use_qk_l2norm_in_kernel ? 1 / std::sqrt(q2) : 1);
      k[i][c] *= args.use_qk_l2norm_in_kernel ? 1 / std::sqrt(k2) : 1;
    }
  }

  Matrix m = zeros(kChunk, kChunk), t2 = m, t = m;
  for (std::size_t i = 0; i < kChunk; ++i) {
    std::vector<double> l(kChunk, 0.0);
    for (std::size_t j = 0; j <= i; ++j)
      for (std::size_t c = 0; c < kHead; ++c) {
        const double d = k[j][c] * std::exp(decay[i][c] - decay[j][c]);
        m[i][j] += q[i][c] * d;
        if (j < i) l[j] += beta[i] * k[i][c] * d;
      }
    for (std::size_t j = 0; j <= i; ++j) {  // row i of the inverse
      t[i][j] = i == j ? 1 : 0;
      for (std::size_t n = j; n < i; ++n) t[i][j] -= l[n] * t[n][j];
      t2[i][j] = t[i][j] * beta[j];
    }
  }
  Operators result{zeros(kChunk, kHead), zeros(kChunk, kHead), zeros(kChunk, kHead), zeros(kChunk, kChunk),
                   zeros(1, kHead)};
  for (std::size_t i = 0; i < kChunk; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      for (std::size_t n = j; n <= i; ++n) result.b[i][j] += m[i][n] * t2[n][j];
  for (std::size_t c = 0; c < kHead; ++c) {
    const double end = decay[kChunk - 1][c];
    result.gamma[0][c] = std::exp(end);
    for (std::size_t i = 0; i < kChunk; ++i) {
      result.kt[i][c] = k[i][c] * std::exp(decay[i][c]);
      for (std::size_t n = i; n < kChunk; ++n)
        result.kr[i][c] += t2[n][i] * k[n][c] * std::exp(end - decay[n][c]);
    }
    for (std::size_t i = 0; i < kChunk; ++i) {
      result.qh[i][c] = 16 * q[i][c] * std::exp(decay[i][c]);
      for (std::size_t n = 0; n <= i; ++n) result.qh[i][c] -= 16 * result.b[i][n] * result.kt[n][c];
    }
  }
  return result;
}

/// An operand of a packet against its double: 64-column halves of rows in the 128-byte swizzle.
double error(const std::byte* packet, std::uint32_t operand, const Matrix& expected) {
  cases::ErrorSum sum;
  for (std::uint32_t i = 0; i < expected.size(); ++i)
    for (std::uint32_t c = 0; c < expected[i].size(); ++c) {
      f16 x;
      std::memcpy(&x, packet + operand + c / 64 * flash_kda::kTile + flash_kda::swizzled(i, c % 64 * 2), 2);
      sum.add(static_cast<double>(to_float(x)), expected[i][c]);
    }
  return sum.relative();
}

struct Bars {
  double kt, qh, kr, b;
};
void check(const Forward& forward, const Bars& bars) {
  const cases::KdaCase made = cases::make_kda_case(forward.spec);
  const ForwardResult result = run(forward);
  ASSERT_EQ(result.packets.size(), 1u);
  const std::vector<std::byte>& packets = result.packets[0];
  ASSERT_EQ(packets.size(), static_cast<std::size_t>((forward.spec.T + kChunk - 1) / kChunk) * Packet::bytes);
  for (std::size_t chunk = 0; chunk * Packet::bytes < packets.size(); ++chunk) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    const std::byte* const packet = packets.data() + chunk * Packet::bytes;
    const Operators expected = operators(made.args, static_cast<std::int64_t>(chunk) * kChunk);
    EXPECT_LE(error(packet, Packet::kt, expected.kt), bars.kt);
    EXPECT_LE(error(packet, Packet::qh, expected.qh), bars.qh);
    EXPECT_LE(error(packet, Packet::kr, expected.kr), bars.kr);
    EXPECT_LE(error(packet, Packet::b, expected.b), bars.b);
    for (std::uint32_t c = 0; c < kHead; ++c) {
      float x;
      std::memcpy(&x, packet + Packet::gamma + 4 * c, 4);
      EXPECT_NEAR(static_cast<double>(x), expected.gamma[0][c], 3e-5 * expected.gamma[0][c] + 1e-37);
    }
  }
}

Forward prepared(std::int64_t T, DataKind data) {
  Forward forward;
  forward.spec = {
      .T = T, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16, .data = data};
  forward.keep_packets = true;
  KdaArgs& options = forward.spec.options;
  options.use_gate_in_kernel = options.use_qk_l2norm_in_kernel = options.use_beta_sigmoid_in_kernel = true;
  options.lower_bound = -5.0f;
  return forward;
}

TEST(FlashKdaOperators, AreRightOnRandomData) {
  check(prepared(128, DataKind::random), {4e-4, 6e-4, 8e-4, 4e-3});
}
TEST(FlashKdaOperators, AreRightInATail) { check(prepared(91, DataKind::random), {4e-4, 6e-4, 8e-4, 4e-3}); }
TEST(FlashKdaOperators, AreRightWithSlowGates) {
  check(prepared(64, DataKind::slow), {4e-4, 1.5e-3, 2e-3, 4e-3});
}
TEST(FlashKdaOperators, AreRightAtTheBound) {
  check(prepared(64, DataKind::bound), {4e-4, 6e-4, 8e-4, 4e-3});
}
TEST(FlashKdaOperators, AreRightWithRepeatedKeys) {
  check(prepared(64, DataKind::repeated_keys), {4e-4, 1e-3, 8e-3, 5e-3});
}
TEST(FlashKdaOperators, AreRightOnTheExactPath) {
  Forward forward = prepared(64, DataKind::resets);
  forward.spec.options.lower_bound.reset();
  check(forward, {4e-4, 6e-4, 8e-4, 1e-3});
}

}  // namespace
}  // namespace fla::emulation
