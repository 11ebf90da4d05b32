#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "emulated_ptx.h"
#include "tests/emulation/device.h"

namespace fla::flash_kda {
namespace {

using emulation::Device;
using emulation::Kernel;
using emulation::text_of;

TEST(Emulation, ThreadsKnowWhereTheyAre) {
  Device device;
  const auto seen = device.buffer<std::uint32_t>("seen", 3 * 64);
  const Kernel kernel{.name = "where", .blocks = 3, .threads = 64, .body = [&](Smem) {
                        seen[block() * 64 + thread()] = 1000 * block() + thread() + 100000 * blocks();
                      }};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], 300000 + 1000 * (i / 64) + i % 64);
}

TEST(Emulation, LanesOfAWarpExchangeValues) {
  Device device;
  const auto results = device.buffer<float>("results", 64 * 5);
  const Kernel kernel{.name = "lanes", .threads = 64, .body = [&](Smem) {
                        float* const mine = results.data() + 5 * thread();
                        mine[0] = shuffle_xor(static_cast<float>(thread()), 5);
                        mine[1] = static_cast<float>(uniform(thread() + 7));
                        mine[2] = any(thread() == 40) ? 1.0f : 0.0f;
                        mine[3] = static_cast<float>(shuffle(static_cast<std::int32_t>(thread()), 11));
                        mine[4] = static_cast<float>(bits_of_all(thread() & 36));
                      }};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(results[5 * i], static_cast<float>(i ^ 5));
    const std::uint32_t first = i / 32 * 32;
    EXPECT_EQ(results[5 * i + 1], static_cast<float>(first + 7));
    EXPECT_EQ(results[5 * i + 2], i < 32 ? 0.0f : 1.0f);
    EXPECT_EQ(results[5 * i + 3], static_cast<float>(first + 11));
    EXPECT_EQ(results[5 * i + 4], i < 32 ? 4.0f : 36.0f);
  }
}

/// Everybody leaves a number for his neighbour on the other side of a barrier.
TEST(Emulation, NamedBarriersOrderTheirThreadsAlone) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    Device device;
    const auto results = device.buffer<std::uint32_t>("results", 128);
    const Kernel kernel{.name = "neighbours", .threads = 128, .shared_bytes = 512, .body = [&](Smem smem) {
                          const std::uint32_t half = thread() / 64, place = thread() % 64;
                          store(smem + 4 * thread(), 10 * thread());
                          barrier(Barrier{1 + half}, 64);
                          results[thread()] = load_u32(smem + 4 * (64 * half + 63 - place));
                        }};
    EXPECT_EQ(text_of(device.run({kernel}, {.seed = seed})), "");
    for (std::uint32_t i = 0; i < 128; ++i) EXPECT_EQ(results[i], 10 * (i / 64 * 64 + 63 - i % 64));
  }
}

/// A warp leaves numbers and goes on; another waits for them.
TEST(Emulation, NamedBarriersLetProducersGoOn) {
  for (const bool arrives : {true, false}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      Device device;
      const auto results = device.buffer<std::uint32_t>("results", 32);
      const Kernel kernel{.name = "goes on", .threads = 64, .shared_bytes = 512, .body = [&](Smem smem) {
                            std::uint32_t sum = 0;
                            for (std::uint32_t turn = 0; turn < 2; ++turn) {
                              const Smem at = smem + 128 * turn;
                              if (thread() < 32) {
                                store(at + 4 * thread(), 10 * thread() + turn);
                                if (arrives) barrier_arrive(Barrier{1 + turn}, 64);
                              } else {
                                if (arrives) barrier(Barrier{1 + turn}, 64);
                                sum += load_u32(at + 4 * (63 - thread()));
                              }
                            }
                            if (thread() >= 32) results[thread() - 32] = sum;
                          }};
      const std::string found = text_of(device.run({kernel}, {.seed = seed}));
      EXPECT_EQ(found.empty(), arrives) << found;
      for (std::uint32_t i = 0; arrives && i < 32; ++i) EXPECT_EQ(results[i], 20 * (31 - i) + 1);
    }
  }
}

/// A ring of two stages between a producer and a warp of consumers, for more rounds than there are stages.
TEST(Emulation, MbarriersHandStagesBackAndForth) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    Device device;
    constexpr std::uint32_t rounds = 7;
    const auto source = device.buffer<std::uint32_t>("source", rounds * 32);
    const auto sums = device.buffer<std::uint32_t>("sums", 32);
    for (std::uint32_t i = 0; i < source.size(); ++i) source[i] = i * i;
    const Kernel kernel{.name = "ring", .threads = 64, .shared_bytes = 512, .body = [&](Smem smem) {
                          const Smem full = smem + 256, empty = full + 16;
                          Patience patience;
                          if (thread() == 0) {
                            for (std::uint32_t i = 0; i < 2; ++i) {
                              mbar_init(full + 8 * i, 1);
                              mbar_init(empty + 8 * i, 32);
                            }
                            mbar_init_fence();
                          }
                          barrier(Barrier{1}, 64);
                          if (thread() == 32) {
                            for (std::uint32_t i = 0; i < rounds; ++i) {
                              if (i >= 2) mbar_wait(empty + 8 * (i % 2), (i / 2 - 1) % 2, patience);
                              mbar_expect(full + 8 * (i % 2), 128);
                              bulk_load(smem + 128 * (i % 2), &source[32 * i], 128, full + 8 * (i % 2));
                            }
                          } else if (thread() < 32) {
                            std::uint32_t sum = 0;
                            for (std::uint32_t i = 0; i < rounds; ++i) {
                              while (!mbar_try(full + 8 * (i % 2), i / 2 % 2)) {
                              }
                              sum += load_u32(smem + 128 * (i % 2) + 4 * thread());
                              mbar_arrive(empty + 8 * (i % 2));
                            }
                            sums[thread()] = sum;
                          }
                        }};
    EXPECT_EQ(text_of(device.run({kernel}, {.seed = seed})), "");
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      std::uint32_t sum = 0;
      for (std::uint32_t i = 0; i < rounds; ++i) sum += (32 * i + lane) * (32 * i + lane);
      EXPECT_EQ(sums[lane], sum);
    }
  }
}

/// A chain of blocks, each of which waits for the one after it: they must all be there at once.
TEST(Emulation, BlocksThatAreThereTogetherSynchroniseByFlags) {
  Device device;
  const auto flags = device.buffer<std::uint32_t>("flags", 5);
  const auto values = device.buffer<std::uint32_t>("values", 5);
  std::fill(flags.begin(), flags.end(), 0);
  const Kernel kernel{.name = "chain", .blocks = 4, .threads = 32, .body = [&](Smem) {
                        if (thread() != 0) return;
                        const std::uint32_t i = block();
                        Patience patience;
                        if (i + 1 < blocks()) wait_at_least(&flags[i + 1], 1, patience);
                        values[i] = i + 1 < blocks() ? values[i + 1] + 1 : 0;
                        store_release(&flags[i], 1);
                        fetch_add(&flags[4], 10 + i);
                      }};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(values[i], 3 - i);
  EXPECT_EQ(flags[4], 46u);
}

/// What a thread saw in global memory passes to another through a counter in shared memory.
TEST(Emulation, ThreadsOfABlockSynchroniseByCountersInSharedMemory) {
  Device device;
  const auto results = device.buffer<std::uint32_t>("results", 5);
  const Kernel kernel{.name = "counter", .threads = 64, .shared_bytes = 64, .body = [&](Smem smem) {
                        Patience patience;
                        if (thread() == 0) store(smem, std::uint32_t{0});
                        barrier(Barrier{1}, 64);
                        for (std::uint32_t i = 0; i < 5; ++i) {
                          if (thread() == 40) {
                            store(smem + 16 + 4 * i, 100 + i);
                            store_release_shared(smem, i + 1);
                          } else if (thread() == 1) {
                            wait_shared_at_least(smem, i + 1, patience);
                            results[i] = load_u32(smem + 16 + 4 * i);
                          }
                        }
                      }};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(results[i], 100 + i);
}

TEST(Emulation, ALoopAroundLoadAcquireLetsOthersRun) {
  Device device;
  const auto flag = device.buffer<std::uint32_t>("flag", 1);
  flag[0] = 0;
  const Kernel kernel{.name = "loop", .blocks = 2, .threads = 32, .body = [&](Smem) {
                        if (thread() != 0) return;
                        if (block() == 1) return store_release(&flag[0], 1);
                        while (load_acquire(&flag[0]) == 0) {
                        }
                        flag[0] = 2;
                      }};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  EXPECT_EQ(flag[0], 2u);
}

TEST(Emulation, MoreBlocksThanFitRunOneAfterTheOther) {
  Device device;
  const auto counts = device.buffer<std::uint32_t>("counts", 1);
  counts[0] = 0;
  const Kernel kernel{.name = "many",
                      .blocks = 20,
                      .threads = 32,
                      .shared_bytes = 128,
                      .body =
                          [&](Smem smem) {
                            store(smem + 4 * thread(), thread());
                            warp_sync();
                            if (thread() == 0) fetch_add(&counts[0], load_u32(smem + 4 * 31));
                          },
                      .resident = 3};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  EXPECT_EQ(counts[0], 20u * 31);
}

TEST(Emulation, AnEarlyKernelComesBeforeTheOneBeforeHasEndedAndWaitsForIt) {
  Device device;
  const auto data = device.buffer<std::uint32_t>("data", 4);
  std::fill(data.begin(), data.end(), 0);
  const Kernel first{.name = "first", .threads = 32, .body = [&](Smem) {
                       let_next_kernel_come();
                       warp_sync();
                       data[0] = 1 + data[1];
                     }};
  const Kernel second{.name = "second",
                      .threads = 32,
                      .body =
                          [&](Smem) {
                            data[1] = 5;
                            wait_for_kernel_before();
                            data[2] = data[0];
                          },
                      .early = true};
  EXPECT_EQ(text_of(device.run({first, second})), "");
  EXPECT_EQ(data[2], 6u);

  std::fill(data.begin(), data.end(), 0);
  Kernel late = second;
  late.early = false;
  EXPECT_EQ(text_of(device.run({first, late})), "");
  EXPECT_EQ(data[2], 1u);
}

}  // namespace
}  // namespace fla::flash_kda
