#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tests/emulation/instructions.h"
#include "tests/emulation/machine.h"
#include "tests/emulation/numbers.h"

namespace fla::emulation {
namespace {

float value(std::uint16_t bits, Format format) {
  return format == Format::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
}

/// Rows of 16 bytes, eight of each matrix, and what lane `lane` has of matrix `matrix`.
struct MatrixAccess {
  Thread* thread;
  Smem row;
  std::uint32_t* registers;
  bool transposed;
};
template <class Move>  // move(actor, address, element, where it belongs)
void move_matrices(const std::vector<MatrixAccess*>& lanes, Site site, const Move& move) {
  Machine& m = machine();
  for (const MatrixAccess* lane : lanes) m.shared(*lane->thread->block, lane->row, 16, 16, site);
  for (std::uint32_t l = 0; l < 32; ++l) {
    const ThreadActor actor(m, *lanes[l]->thread, site);
    for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
      auto* const halves = reinterpret_cast<std::byte*>(lanes[l]->registers + matrix);
      for (std::uint32_t e = 0; e < 2; ++e) {
        std::uint32_t row = l / 4, column = 2 * (l % 4) + e;
        if (lanes[l]->transposed) std::swap(row, column);
        move(actor.actor, lanes[8 * matrix + row]->row + 2 * column, halves + 2 * e);
      }
    }
  }
}

/// A wgmma as all threads of a warpgroup bring it.
struct Brought {
  Thread* thread;
  const Wgmma* product;
};

struct Descriptor {
  explicit Descriptor(std::uint64_t bits)
      : start(static_cast<Smem>(bits & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4),
        offset(static_cast<std::uint32_t>(bits >> 49 & 7)),
        swizzle(static_cast<std::uint32_t>(bits >> 62)) {}
  Smem start;
  std::uint32_t leading, stride, offset, swizzle;
};

/// Reads `rows` x 16 elements (k last) behind a descriptor with the 128-byte swizzle, eight elements a piece.
///   K-major: rows of 128 bytes are M or N; eight of them take `stride` bytes.
///   MN-major: rows are k, 64 wide; the next 64 of M or N are `leading` bytes on, the next eight of k
///   `stride` bytes.
/// The swizzle acts on the address that comes out.
void gather(std::uint64_t bits, bool mn_major, std::uint32_t first, std::uint32_t rows, Format format,
            const std::vector<const Actor*>& actors, std::array<float, 16>* to) {
  Machine& m = machine();
  Block& block = *self().block;
  const Descriptor d(bits);
  if (d.swizzle != 1 || d.offset != 0)
    m.stop(Fault::misuse, m.name(self()) + " gives a wgmma a descriptor with swizzle mode " +
                              std::to_string(d.swizzle) + " and base offset " + std::to_string(d.offset) +
                              ", expected 1 (128 bytes) and 0 (" + text_of(actors.front()->mark.site) + ")");
  const auto piece = [&](Smem address) {
    address ^= (address >> 7 & 7) << 4;
    for (const Actor* actor : actors) m.read(block, address, 16, *actor);
    std::array<std::uint16_t, 8> halves{};
    std::memcpy(halves.data(), m.shared(block, address, 16, 16, actors.front()->mark.site), 16);
    return halves;
  };
  if (!mn_major) {
    for (std::uint32_t i = 0; i < rows; ++i)
      for (std::uint32_t k = 0; k < 16; k += 8) {
        const std::uint32_t row = first + i;
        const auto halves = piece(d.start + row / 8 * d.stride + row % 8 * 128 + 2 * k);
        for (std::uint32_t e = 0; e < 8; ++e) to[i][k + e] = value(halves[e], format);
      }
    return;
  }
  for (std::uint32_t k = 0; k < 16; ++k)
    for (std::uint32_t i = 0; i < rows; i += 8) {
      const std::uint32_t row = first + i;
      const auto halves =
          piece(d.start + row / 64 * d.leading + row % 64 * 2 + k / 8 * d.stride + k % 8 * 128);
      for (std::uint32_t e = 0; e < 8; ++e) to[i + e][k] = value(halves[e], format);
    }
}

constexpr std::uint32_t kInFlight = 0x7d5af11e;  // 1.8e37: no NaN, which arithmetic would leave as it is

bool is_untouched(const Flight& flight) {
  return std::all_of(flight.registers, flight.registers + flight.values.size(),
                     [](float x) { return std::bit_cast<std::uint32_t>(x) == kInFlight; });
}

/// The thread's accumulators, taken away from it.
Flight& accumulators(Thread& thread, const Wgmma& product, Site site) {
  Machine& m = machine();
  const auto count = static_cast<std::size_t>(product.n / 2);
  for (Flight& flight : thread.flights)
    if (flight.registers == product.d) {
      if (flight.values.size() != count || !is_untouched(flight))
        m.found(
            Fault::misuse,
            m.name(thread) + " touched accumulators between a wgmma and its wait; seen at " + text_of(site));
      flight.group = thread.group;
      return flight;
    }
  thread.flights.push_back({product.d, std::vector<float>(product.d, product.d + count), thread.group});
  return thread.flights.back();
}

void multiply(const std::vector<Brought*>& threads, Site site) {
  Machine& m = machine();
  const Wgmma& first = *threads[0]->product;
  const auto n = static_cast<std::uint32_t>(first.n);
  std::vector<std::array<float, 16>> a(64), b(n);

  // Each warp reads its own rows of A and all of B, in its own time.
  struct Warp {
    std::vector<const Knowledge*> known, fenced;
    Actor actor;
  };
  std::array<Warp, 4> warps;
  std::vector<const Actor*> all;
  for (std::uint32_t w = 0; w < 4; ++w) {
    const Thread& leader = *threads[32 * w]->thread;
    for (std::uint32_t l = 0; l < 32; ++l) {
      const Thread& thread = *threads[32 * w + l]->thread;
      if (thread.group != leader.group || threads[32 * w + l]->product->b != first.b ||
          threads[32 * w + l]->product->n != first.n)
        m.stop(Fault::misuse, m.name(thread) + " and " + m.name(*threads[0]->thread) +
                                  " bring different things to a wgmma (" + text_of(site) + ")");
      const auto add = [](std::vector<const Knowledge*>& to, const Knowledge& one) {
        if (std::none_of(to.begin(), to.end(), [&](const Knowledge* other) { return other->is(one); }))
          to.push_back(&one);
      };
      add(warps[w].known, thread.known);
      add(warps[w].fenced, thread.fenced);
    }
    const Agent agent = m.agent(leader.block->slot, Role::products, leader.index / 32, leader.block->index);
    warps[w].actor = {.mark = {agent, leader.group, site},
                      .known = warps[w].known,
                      .fenced = warps[w].fenced,
                      .async = true};
    all.push_back(&warps[w].actor);
  }
  if (!first.a_registers)
    for (std::uint32_t w = 0; w < 4; ++w)
      gather(first.a, false, 16 * w, 16, first.format, {all[w]}, a.data() + 16 * w);
  gather(first.b, first.b_mn_major, 0, n, first.format, all, b.data());

  for (std::uint32_t w = 0; w < 4; ++w) {
    if (first.a_registers)
      for (std::uint32_t l = 0; l < 32; ++l)
        for (std::uint32_t i = 0; i < 8; ++i)  // register i / 2: rows 0-7 and 8-15 of k 0-7, then of k 8-15
          a[16 * w + l / 4 + 8 * (i / 2 % 2)][8 * (i / 4) + 2 * (l % 4) + i % 2] =
              value(half_of(threads[32 * w + l]->product->a_registers[i / 2], static_cast<int>(i % 2)),
                    first.format);
    for (std::uint32_t l = 0; l < 32; ++l) {
      Thread& thread = *threads[32 * w + l]->thread;
      const Wgmma& product = *threads[32 * w + l]->product;
      Flight& flight = accumulators(thread, product, site);
      for (std::uint32_t i = 0; i < n / 2; ++i) {
        const std::array<float, 16>& x = a[16 * w + l / 4 + 8 * (i / 2 % 2)];
        const std::array<float, 16>& y = b[8 * (i / 4) + 2 * (l % 4) + i % 2];
        float sum = 0;
        for (std::size_t k = 0; k < 16; ++k) sum += x[k] * y[k];
        flight.values[i] = (product.add ? flight.values[i] : 0.0f) + product.sign * sum;
      }
      std::fill(product.d, product.d + n / 2, std::bit_cast<float>(kInFlight));
    }
  }
}

}  // namespace

void load(void* to, Smem from, std::uint32_t bytes, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  m.shared(*thread.block, from, bytes, bytes, site);
  std::memcpy(to, m.read(*thread.block, from, bytes, ThreadActor(m, thread, site).actor), bytes);
}

void store(Smem to, const void* from, std::uint32_t bytes, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  m.shared(*thread.block, to, bytes, bytes, site);
  std::memcpy(m.write(*thread.block, to, bytes, ThreadActor(m, thread, site).actor), from, bytes);
}

void ldmatrix(std::uint32_t* r, Smem row, bool transposed, Site site) {
  Thread& thread = self();
  MatrixAccess mine{&thread, row, r, transposed};
  machine().meet(thread.block->warps[thread.index / 32], transposed ? "ldmatrix.trans" : "ldmatrix", 32,
                 thread.index % 32, mine, site, [&](const std::vector<MatrixAccess*>& lanes) {
                   move_matrices(lanes, site, [&](const Actor& actor, Smem address, std::byte* half) {
                     std::memcpy(half, machine().read(*thread.block, address, 2, actor), 2);
                   });
                 });
}

void stmatrix(Smem row, const std::uint32_t* r, bool transposed, Site site) {
  Thread& thread = self();
  std::array<std::uint32_t, 4> registers{r[0], r[1], r[2], r[3]};
  MatrixAccess mine{&thread, row, registers.data(), transposed};
  machine().meet(thread.block->warps[thread.index / 32], transposed ? "stmatrix.trans" : "stmatrix", 32,
                 thread.index % 32, mine, site, [&](const std::vector<MatrixAccess*>& lanes) {
                   move_matrices(lanes, site, [&](const Actor& actor, Smem address, const std::byte* half) {
                     std::memcpy(machine().write(*thread.block, address, 2, actor), half, 2);
                   });
                 });
}

std::uint32_t transposed(std::uint32_t x, Site site) {
  Thread& thread = self();
  machine().meet(thread.block->warps[thread.index / 32], "movmatrix.trans", 32, thread.index % 32, x, site,
                 [&](const std::vector<std::uint32_t*>& lanes) {
                   std::array<std::array<std::uint32_t, 8>, 8> matrix{};
                   for (std::uint32_t l = 0; l < 32; ++l)
                     for (std::uint32_t e = 0; e < 2; ++e)
                       matrix[l / 4][2 * (l % 4) + e] = half_of(*lanes[l], static_cast<int>(e));
                   for (std::uint32_t l = 0; l < 32; ++l)
                     *lanes[l] = matrix[2 * (l % 4)][l / 4] | matrix[2 * (l % 4) + 1][l / 4] << 16;
                 });
  return x;
}

void mma(float* c, const std::uint32_t* a, std::uint32_t b0, std::uint32_t b1, Format format, Site site) {
  struct Lane {
    float* c;
    std::array<std::uint32_t, 4> a;
    std::array<std::uint32_t, 2> b;
  } mine{c, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  Thread& thread = self();
  const char* const name = format == Format::bf16 ? "mma.bf16" : "mma.f16";
  machine().meet(thread.block->warps[thread.index / 32], name, 32, thread.index % 32, mine, site,
                 [&](const std::vector<Lane*>& lanes) {
                   std::array<std::array<float, 16>, 16> x{};
                   std::array<std::array<float, 16>, 8> y{};
                   for (std::uint32_t l = 0; l < 32; ++l)
                     for (std::uint32_t e = 0; e < 2; ++e) {
                       const std::uint32_t k = 2 * (l % 4) + e;
                       for (std::uint32_t i = 0; i < 4; ++i)
                         x[l / 4 + 8 * (i % 2)][k + 8 * (i / 2)] =
                             value(half_of(lanes[l]->a[i], static_cast<int>(e)), format);
                       for (std::uint32_t i = 0; i < 2; ++i)
                         y[l / 4][k + 8 * i] = value(half_of(lanes[l]->b[i], static_cast<int>(e)), format);
                     }
                   for (std::uint32_t l = 0; l < 32; ++l)
                     for (std::uint32_t i = 0; i < 4; ++i) {
                       float sum = 0;
                       for (std::size_t k = 0; k < 16; ++k)
                         sum += x[l / 4 + 8 * (i / 2)][k] * y[2 * (l % 4) + i % 2][k];
                       lanes[l]->c[i] += sum;
                     }
                 });
}

void wgmma(const Wgmma& product, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  if (!thread.wgmma_fenced)
    m.stop(Fault::misuse, m.name(thread) + " begins a wgmma without wgmma_fence since the last wait (" +
                              text_of(site) + ")");
  Brought mine{&thread, &product};
  m.meet(thread.block->warpgroups[thread.index / 128], "wgmma", 128, thread.index % 128, mine, site,
         [&](const std::vector<Brought*>& threads) { multiply(threads, site); });
}

void wgmma_fence(Site site) {
  if (machine().leaves_out("wgmma_fence", site)) return;
  self().wgmma_fenced = true;
}

void wgmma_commit(Site site) {
  if (machine().leaves_out("wgmma_commit", site)) return;
  Machine& m = machine();
  Thread& thread = self();
  ++thread.group;
  AgentState& agent =
      m.agents()[m.agent(thread.block->slot, Role::products, thread.index / 32, thread.block->index)];
  agent.clock = std::max(agent.clock, thread.group);
}

void wgmma_wait(std::uint32_t pending, Site site) {
  if (machine().leaves_out("wgmma_wait", site)) return;
  Machine& m = machine();
  Thread& thread = self();
  thread.last = site;
  thread.wgmma_fenced = false;
  if (thread.group <= 1 + pending) return;
  const Clock done = thread.group - 1 - pending;
  thread.known.learn(m.agent(thread.block->slot, Role::products, thread.index / 32, thread.block->index),
                     done);
  std::erase_if(thread.flights, [&](Flight& flight) {
    if (flight.group > done) return false;
    if (!is_untouched(flight))
      m.found(Fault::misuse,
              m.name(thread) + " touched accumulators between a wgmma and its wait (" + text_of(site) + ")");
    std::copy(flight.values.begin(), flight.values.end(), flight.registers);
    return true;
  });
}

}  // namespace fla::emulation
