#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <regex>
#include <string>

#include "emulated_ptx.h"
#include "tests/emulation/device.h"

/// Tiny kernels with and without a fault. Without it nothing is found, with it exactly that fault.
namespace fla::flash_kda {
namespace {

using emulation::Device;
using emulation::Kernel;
using emulation::text_of;

/// What is found, without the places in this file.
std::string found(Device& device, const std::vector<Kernel>& kernels) {
  const std::string text = text_of(device.run(kernels));
  EXPECT_TRUE(text.empty() || text.find("deadlock") != std::string::npos ||
              text.find("bounds") != std::string::npos || text.find("ended") != std::string::npos ||
              text.find("faults_test.cpp:") != std::string::npos)
      << text;
  return std::regex_replace(text, std::regex(" ?\\(faults_test.cpp:[0-9]+\\)"), "");
}
std::string found(std::uint32_t threads, std::uint32_t shared, const std::function<void(Smem)>& body) {
  Device device;
  return found(device, {Kernel{.name = "kernel", .threads = threads, .shared_bytes = shared, .body = body}});
}

// ---- races between threads

std::string neighbours(bool with_barrier) {
  return found(64, 256, [=](Smem smem) {
    store(smem + 4 * thread(), thread());
    if (with_barrier) barrier(Barrier{1}, 64);
    if (thread() == 40) load_u32(smem + 4 * 7);
  });
}
TEST(EmulationFinds, AMissingBarrier) {
  EXPECT_EQ(neighbours(true), "");
  EXPECT_EQ(neighbours(false),
            "race: thread 40 of block 0 reads byte 28 of shared memory, which thread 7 of block 0 wrote; "
            "nothing orders the "
            "two\n");
}

std::string lanes(bool with_warp_sync) {
  return found(32, 256, [=](Smem smem) {
    store(smem + 4 * thread(), thread());
    shuffle_xor(1, 1);  // brings the lanes together and orders nothing
    if (with_warp_sync) warp_sync();
    if (thread() == 3) store(smem + 4 * 9, 1.0f);
  });
}
TEST(EmulationFinds, AMissingWarpSync) {
  EXPECT_EQ(lanes(true), "");
  EXPECT_EQ(lanes(false),
            "race: thread 3 of block 0 writes byte 36 of shared memory, which thread 9 of block 0 wrote; "
            "nothing orders the "
            "two\n");
}

std::string reader_and_writer(bool with_barrier) {
  return found(64, 256, [=](Smem smem) {
    if (thread() == 0) store(smem, 1.0f);
    barrier(Barrier{1}, 64);
    load_f32(smem);
    if (with_barrier) barrier(Barrier{2}, 64);
    if (thread() == 0) store(smem, 2.0f);
  });
}
TEST(EmulationFinds, AWriteThatReadersAreNotDoneWith) {
  EXPECT_EQ(reader_and_writer(true), "");
  const std::string text = reader_and_writer(false);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "race: thread 0 of block 0 writes byte 0 of shared memory, which thread 63 of block 0 reads; "
            "nothing orders the two");
}

/// One lane arrives for its warp.
std::string release_by_one(bool with_warp_sync) {
  return found(64, 256, [=](Smem smem) {
    Patience patience;
    if (thread() == 0) {
      mbar_init(smem + 128, 1);
      mbar_init_fence();
    }
    barrier(Barrier{1}, 64);
    if (thread() < 32) {
      store(smem + 4 * thread(), thread());
      if (with_warp_sync) warp_sync();
      if (thread() == 0) mbar_arrive(smem + 128);
    } else {
      mbar_wait(smem + 128, 0, patience);
      load_u32(smem + 4 * (thread() - 31 + (thread() == 63 ? -1 : 0)));
    }
  });
}
TEST(EmulationFinds, AnArrivalForLanesThatWereNotWaitedFor) {
  EXPECT_EQ(release_by_one(true), "");
  EXPECT_EQ(release_by_one(false),
            "race: thread 32 of block 0 reads byte 4 of shared memory, which thread 1 of block 0 wrote; "
            "nothing orders the "
            "two\n");
}

// ---- copies

struct Copied {
  bool with_wait = true, with_fence = true, with_wait_read = true, with_commit = true,
       with_wait_at_end = true;
  std::uint32_t parity = 0, expected = 128;
};
/// Data comes by a copy, is doubled in place by a warp and leaves by a copy; then its place is used again.
std::string copied(const Copied& with) {
  Device device;
  const auto from = device.buffer<std::uint32_t>("from", 32), to = device.buffer<std::uint32_t>("to", 32);
  for (std::uint32_t i = 0; i < 32; ++i) from[i] = i;
  const auto body = [&](Smem smem) {
    Patience patience;
    const Smem bar = smem + 128;
    if (thread() == 0) {
      mbar_init(bar, 1);
      mbar_init_fence();
      mbar_expect(bar, with.expected);
      bulk_load(smem, from.data(), 128, bar);
    }
    warp_sync();
    if (with.with_wait) mbar_wait(bar, with.parity, patience);
    store(smem + 4 * thread(), 2 * load_u32(smem + 4 * thread()));
    if (with.with_fence) fence_async_shared();
    warp_sync();
    if (thread() == 0) {
      bulk_store(to.data(), smem, 128);
      if (with.with_commit) bulk_commit();
      if (with.with_wait_read) bulk_wait_read();
    }
    warp_sync();
    store(smem + 4 * thread(), 0.0f);
    warp_sync();
    if (thread() == 0 && with.with_wait_at_end) bulk_wait();
  };
  std::string text =
      found(device, {Kernel{.name = "copies", .threads = 32, .shared_bytes = 256, .body = body}});
  if (text.empty()) {
    for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(to[i], 2 * i);
  }
  return text;
}
TEST(EmulationFinds, NothingInCopiesThatAreWaitedFor) { EXPECT_EQ(copied({}), ""); }
TEST(EmulationFinds, ACopyThatNobodyWaitedFor) {
  const std::string text = copied({.with_wait = false});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "race: thread 31 of block 0 reads byte 124 of shared memory, which a copy for the mbarrier at "
            "128 of block 0 "
            "wrote; nothing orders the two");
}
TEST(EmulationFinds, AWaitForTheWrongPhase) {
  // The parity of the phase before the first one: that phase is over, so the wait ends at once.
  const std::string text = copied({.parity = 1, .expected = 256});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "race: thread 31 of block 0 reads byte 124 of shared memory, which a copy for the mbarrier at "
            "128 of block 0 "
            "wrote; nothing orders the two");
  // And after the phase is over: for ever.
  EXPECT_EQ(copied({.parity = 1}),
            "deadlock: nobody can go on; block 0 of copies: threads 0 to 31 wait for parity 1 of the "
            "mbarrier at 128, which "
            "is in phase 1 and lacks 1 of 1 arrival and 0 bytes\n");
}
TEST(EmulationFinds, BytesThatNeverCome) {
  EXPECT_EQ(copied({.expected = 160}),
            "deadlock: nobody can go on; block 0 of copies: threads 0 to 31 wait for parity 0 of the "
            "mbarrier at 128, which "
            "is in phase 0 and lacks 0 of 1 arrival and 32 bytes\n");
}
TEST(EmulationFinds, AMissingProxyFenceBeforeABulkStore) {
  EXPECT_EQ(copied({.with_fence = false}),
            "missing fence: a bulk store of thread 0 of block 0 reads byte 0 of shared memory, which thread "
            "0 of block 0 "
            "wrote; no fence for the async proxy is between\n");
}
TEST(EmulationFinds, ABulkSourceThatIsRewritten) {
  const char* const expected =
      "rewritten source: thread 29 of block 0 writes byte 116 of shared memory, which a bulk store of thread "
      "0 of block 0 "
      "reads; nothing orders the two\n";
  EXPECT_EQ(copied({.with_wait_read = false}), expected);
  const std::string not_committed = copied({.with_commit = false});
  EXPECT_EQ(not_committed.substr(0, not_committed.find('\n') + 1), expected);
}
TEST(EmulationFinds, ABlockThatEndsBeforeItsStores) {
  Device device;
  const auto to = device.buffer<std::uint32_t>("to", 4);
  const Kernel kernel{.name = "hasty", .threads = 32, .shared_bytes = 128, .body = [&](Smem smem) {
                        if (thread() != 0) return;
                        store(smem, U4{1, 2, 3, 4});
                        fence_async_shared();
                        bulk_store(to.data(), smem, 16);
                        bulk_commit();
                      }};
  EXPECT_EQ(
      found(device, {kernel}),
      "rewritten source: thread 0 of block 0 of hasty ended before its bulk stores had read their sources\n");
}

/// A fence by the thread that copies does as well, once it knows of the writes.
std::string fenced_by_the_copier(bool after_the_barrier) {
  Device device;
  const auto to = device.buffer<std::uint32_t>("to", 4);
  const auto body = [&, after_the_barrier](Smem smem) {
    if (thread() == 0 && !after_the_barrier) fence_async_shared();
    if (thread() < 4) store(smem + 4 * thread(), thread());
    warp_sync();
    if (thread() != 0) return;
    if (after_the_barrier) fence_async_shared();
    bulk_store(to.data(), smem, 16);
    bulk_commit();
    bulk_wait();
  };
  return found(device, {Kernel{.name = "kernel", .threads = 32, .shared_bytes = 64, .body = body}});
}
TEST(EmulationFinds, AProxyFenceThatComesTooEarly) {
  EXPECT_EQ(fenced_by_the_copier(true), "");
  EXPECT_EQ(fenced_by_the_copier(false),
            "missing fence: a bulk store of thread 0 of block 0 reads byte 0 of shared memory, which thread "
            "0 of block 0 "
            "wrote; no fence for the async proxy is between\n");
}

/// A tile that threads wrote is overwritten by a copy.
std::string overwritten(bool with_fence) {
  Device device;
  const auto from = device.buffer<std::uint32_t>("from", 4);
  const auto body = [&](Smem smem) {
    Patience patience;
    if (thread() == 0) {
      mbar_init(smem + 64, 1);
      mbar_init_fence();
      store(smem, U4{0, 0, 0, 0});
      if (with_fence) fence_async_shared();
      mbar_expect(smem + 64, 16);
      bulk_load(smem, from.data(), 16, smem + 64);
      mbar_wait(smem + 64, 0, patience);
    }
  };
  return found(device, {Kernel{.name = "kernel", .threads = 32, .shared_bytes = 128, .body = body}});
}
TEST(EmulationFinds, AMissingProxyFenceBeforeALoad) {
  EXPECT_EQ(overwritten(true), "");
  EXPECT_EQ(overwritten(false),
            "missing fence: a copy for the mbarrier at 64 of block 0 writes byte 0 of shared memory, which "
            "thread 0 of block "
            "0 wrote; no fence for the async proxy is between\n");
}

/// A packet passes from one block to another through global memory.
std::string passed(bool with_wait, bool with_flag) {
  Device device;
  const auto packet = device.buffer<std::uint32_t>("packet", 4),
             ready = device.buffer<std::uint32_t>("ready", 1),
             result = device.buffer<std::uint32_t>("result", 1);
  ready[0] = 0;
  const auto body = [&](Smem smem) {
    if (thread() != 0) return;
    Patience patience;
    if (block() == 0) {
      store(smem, U4{1, 2, 3, 4});
      fence_async_shared();
      bulk_store(packet.data(), smem, 16);
      bulk_commit();
      with_wait ? bulk_wait() : bulk_wait_read();
      store_release(ready.data(), 1);
    } else {
      mbar_init(smem + 64, 1);
      mbar_init_fence();
      if (with_flag) wait_at_least(ready.data(), 1, patience);
      mbar_expect(smem + 64, 16);
      bulk_load(smem, packet.data(), 16, smem + 64);
      mbar_wait(smem + 64, 0, patience);
      result[0] = load_u32(smem + 8);
    }
  };
  std::string text =
      found(device, {Kernel{.name = "pass", .blocks = 2, .threads = 32, .shared_bytes = 128, .body = body}});
  if (text.empty()) {
    EXPECT_EQ(result[0], 3u);
  }
  return text;
}
TEST(EmulationFinds, APacketThatIsPassedOnTooEarly) {
  EXPECT_EQ(passed(true, true), "");
  const char* const expected =
      "race: a copy for the mbarrier at 64 of block 1 reads byte 0 of packet, which a bulk store of thread 0 "
      "of block 0 "
      "wrote; nothing orders the two\n";
  EXPECT_EQ(passed(false, true), expected);
  EXPECT_EQ(passed(true, false), expected);
}

// ---- wgmma

struct Multiplied {
  bool with_fence = true, with_wgmma_fence = true, with_wait = true, with_barrier = true;
  bool touched = false;
};
std::string multiplied(const Multiplied& with) {
  return found(128, 64 * 128 + 64 * 128, [=](Smem smem) {
    for (std::uint32_t i = 0; i < 8; ++i) store(smem + 16 * (thread() + 128 * i), U4{0, 0, 0, 0});
    if (with.with_fence) fence_async_shared();
    barrier(Barrier{1}, 128);
    const auto operand = [](Smem at) { return at >> 4 | std::uint64_t{64} << 32 | std::uint64_t{1} << 62; };
    float d[32];
    if (with.with_wgmma_fence) wgmma_fence();
    wgmma_ss<64, Half16::f16, 0>(d, operand(smem), operand(smem + 64 * 128), 0);
    wgmma_commit();
    if (with.touched) d[5] *= 2;
    if (with.with_wait) wgmma_wait<0>();
    if (with.with_barrier) barrier(Barrier{2}, 128);
    store(smem + 64 * 128 + 16 * thread(), U4{0, 0, 0, 0});
    if (!with.with_wait) wgmma_wait<0>();
  });
}
TEST(EmulationFinds, NothingInAWgmmaThatIsWaitedFor) { EXPECT_EQ(multiplied({}), ""); }
TEST(EmulationFinds, AMissingProxyFenceBeforeAWgmma) {
  const std::string text = multiplied({.with_fence = false});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "missing fence: a wgmma of warp 0 of block 0 reads byte 0 of shared memory, which thread 0 of "
            "block 0 wrote; "
            "no fence for the async proxy is between");
}
TEST(EmulationFinds, AMissingWgmmaFence) {
  EXPECT_EQ(
      multiplied({.with_wgmma_fence = false}),
      "misuse: thread 127 of block 0 of kernel begins a wgmma without wgmma_fence since the last wait\n");
}
TEST(EmulationFinds, AnOperandThatIsRewrittenBeforeTheWait) {
  const std::string text = multiplied({.with_wait = false});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "race: thread 126 of block 0 writes byte 10208 of shared memory, which a wgmma of warp 3 of "
            "block 0 reads; "
            "nothing orders the two");
}
TEST(EmulationFinds, AnOperandThatAnotherWarpStillReads) {
  const std::string text = multiplied({.with_barrier = false});
  EXPECT_EQ(text.substr(0, 60), "race: thread 126 of block 0 writes byte 10208 of shared memo");
}
TEST(EmulationFinds, AccumulatorsThatAreTouchedBeforeTheWait) {
  const std::string text = multiplied({.touched = true});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "misuse: thread 126 of block 0 of kernel touched accumulators between a wgmma and its wait");
}

// ---- memory

TEST(EmulationFinds, AReadOfWhatNobodyWrote) {
  EXPECT_EQ(found(32, 256,
                  [](Smem smem) {
                    if (thread() == 1) store(smem + 16, U2{1, 2});
                    warp_sync();
                    if (thread() == 2) load_u32x4(smem + 16);
                  }),
            "uninitialised read: thread 2 of block 0 reads byte 24 of shared memory, which nobody wrote\n");
}

TEST(EmulationFinds, SharedMemoryOutOfBounds) {
  EXPECT_EQ(found(32, 256, [](Smem smem) { store(smem + 256, 1.0f); }),
            "out of bounds: thread 0 of block 0 of kernel reaches for 4 bytes at 256 of the block's 256 of "
            "shared memory\n");
  EXPECT_EQ(found(32, 256, [](Smem smem) { load_f32(smem - 4); }),
            "out of bounds: thread 0 of block 0 of kernel reaches for 4 bytes at -4 of the block's 256 of "
            "shared memory\n");
}

TEST(EmulationFinds, GlobalMemoryOutOfBounds) {
  Device device;
  const auto data = device.buffer<std::uint32_t>("data", 64);
  const auto kernel = [](const std::function<void(Smem)>& body) {
    return std::vector{Kernel{.name = "kernel", .threads = 32, .shared_bytes = 256, .body = body}};
  };
  EXPECT_EQ(found(device, kernel([&](Smem) { data[thread()] = data[63 - thread()]; })), "");
  EXPECT_EQ(found(device, kernel([&](Smem) { data.data()[60 + thread()] = 1; })),
            "out of bounds: thread 4 of block 0 of kernel touches byte 256 of data, which has 256\n");
  const auto before = found(device, kernel([&](Smem) { data.data()[-1000] = 1; }));
  EXPECT_EQ(before,
            "out of bounds: thread 0 of block 0 of kernel touches byte -4000 of data, which has 256\n");
  EXPECT_EQ(found(device, kernel([&](Smem smem) {
                    if (thread() != 0) return;
                    store(smem, U4{});
                    fence_async_shared();
                    bulk_store(data.data() + 60, smem, 32);
                  })),
            "out of bounds: a bulk store of thread 0 of block 0 reaches for 32 bytes at 240 of data, which "
            "has 256\n");
}

TEST(EmulationFinds, WritesBesideABuffer) {
  Device device;
  const auto data = device.buffer<std::uint8_t>("data", 3);
  EXPECT_EQ(
      found(device, {Kernel{.name = "kernel", .threads = 32, .body = [&](Smem) { data.data()[3] = 1; }}}),
      "out of bounds: somebody wrote beside data\n");
}

// ---- threads that wait for ever, and instructions that do not fit

TEST(EmulationFinds, ABarrierThatNotAllReach) {
  EXPECT_EQ(found(96, 0,
                  [](Smem) {
                    if (thread() < 32)
                      barrier(Barrier{3}, 96);
                    else if (thread() < 64)
                      barrier(Barrier{4}, 64);
                  }),
            "deadlock: nobody can go on; block 0 of kernel: threads 0 to 31 wait in barrier 3 for 96 "
            "threads, threads 32 to "
            "63 wait in barrier 4 for 64 threads, threads 64 to 95 ended\n");
}

/// Two rounds of one who makes something and one who takes it, who tells that he has, or does not.
std::string rounds(bool tells) {
  return found(64, 64, [=](Smem smem) {
    Patience patience;
    const Smem made = smem, taken = smem + 8;
    if (thread() == 0) {
      mbar_init(made, 1);
      mbar_init(taken, 1);
      mbar_init_fence();
    }
    barrier(Barrier{1}, 64);
    for (std::uint32_t round = 0; round < 2; ++round) {
      if (thread() == 0) {
        mbar_wait(made, round, patience);
        if (tells) mbar_arrive(taken);
      } else if (thread() == 32) {
        if (round > 0 && tells) mbar_wait(taken, round - 1, patience);
        mbar_arrive(made);
      }
      any(true);  // now it is the other's turn; orders nothing
    }
  });
}
TEST(EmulationFinds, APhaseThatAnotherOneMayFollowUnseen) {
  EXPECT_EQ(rounds(true), "");
  EXPECT_EQ(rounds(false),
            "missed phase: the mbarrier at 0 may end phase 1 before thread 0 of block 0 has seen the end of "
            "the one before: it would wait for ever\n");
}

TEST(EmulationFinds, AFlagThatNobodyRaises) {
  Device device;
  const auto flag = device.buffer<std::uint32_t>("flag", 1);
  flag[0] = 2;
  const auto body = [&](Smem) {
    Patience patience;
    if (thread() == 5) wait_at_least(flag.data(), 4, patience);
    warp_sync();
  };
  EXPECT_EQ(found(device, {Kernel{.name = "kernel", .threads = 32, .body = body}}),
            "deadlock: nobody can go on; block 0 of kernel: threads 0 to 4 wait in warp_sync for 32 threads, "
            "thread 5 wait "
            "for a flag to be at least 4, it is 2, threads 6 to 31 wait in warp_sync for 32 threads\n");
}

/// A kernel whose blocks wait for each other needs all of them on the device.
TEST(EmulationFinds, BlocksThatWaitForOneThatDoesNotFit) {
  Device device;
  const auto flag = device.buffer<std::uint32_t>("flag", 1);
  flag[0] = 0;
  const auto body = [&](Smem) {
    Patience patience;
    if (thread() != 0) return;
    if (block() == 2)
      store_release(flag.data(), 1);
    else
      wait_at_least(flag.data(), 1, patience);
  };
  Kernel kernel{.name = "kernel", .blocks = 3, .threads = 32, .body = body};
  EXPECT_EQ(found(device, {kernel}), "");
  flag[0] = 0;
  kernel.resident = 2;
  EXPECT_EQ(found(device, {kernel}).substr(0, 121),
            "deadlock: nobody can go on; block 0 of kernel: thread 0 wait for a flag to be at least 1, it is "
            "0, threads 1 to "
            "31 ended;");
}

TEST(EmulationFinds, LanesInDifferentInstructions) {
  EXPECT_EQ(found(32, 0,
                  [](Smem) {
                    if (thread() == 0)
                      any(true);
                    else
                      warp_sync();
                  }),
            "misuse: thread 1 of block 0 of kernel is in warp_sync of 32 threads where thread 0 of block 0 "
            "of kernel is in "
            "any of 32 threads\n");
}

TEST(EmulationFinds, WaitsForOneBarrierInTwoPlaces) {
  const auto meets = [](bool arrives) {
    return found(64, 0, [=](Smem) {
      if (thread() < 32)
        barrier(Barrier{1}, 64);
      else if (arrives)
        barrier_arrive(Barrier{1}, 64);
      else
        barrier(Barrier{1}, 64);
    });
  };
  EXPECT_EQ(meets(true), "");
  EXPECT_EQ(meets(false),
            "misuse: thread 32 of block 0 of kernel waits at barrier 1 where thread 0 of block 0 of kernel "
            "waits at another place\n");
}

TEST(EmulationFinds, MbarriersThatAreNotMadeOrArriveTooOften) {
  EXPECT_EQ(found(32, 64, [](Smem smem) { mbar_arrive(smem); }),
            "misuse: thread 0 of block 0 of kernel uses an mbarrier at 0 where mbar_init has made none\n");
  EXPECT_EQ(found(32, 64,
                  [](Smem smem) {
                    if (thread() != 0) return;
                    mbar_init(smem, 2);
                    mbar_arrive(smem);
                    mbar_expect(smem, 16);
                    mbar_arrive(smem);
                  }),
            "misuse: thread 0 of block 0 of kernel arrives at the mbarrier at 0, which expects no arrival "
            "any more in its "
            "phase 0\n");
  EXPECT_EQ(found(64, 64,
                  [](Smem smem) {
                    if (thread() == 0) mbar_init(smem, 1);
                    if (thread() == 33) mbar_arrive(smem);
                  }),
            "race: thread 33 of block 0 reads byte 0 of shared memory, which thread 0 of block 0 wrote; "
            "nothing orders the "
            "two\n");
}

TEST(EmulationFinds, CopiesThatAreNotAligned) {
  Device device;
  const auto data = device.buffer<std::uint32_t>("data", 64);
  const auto body = [&](Smem smem) {
    if (thread() == 0) bulk_store(data.data(), smem + 8, 16);
  };
  EXPECT_EQ(
      found(device, {Kernel{.name = "kernel", .threads = 32, .shared_bytes = 64, .body = body}}),
      "misuse: thread 0 of block 0 of kernel copies with a source at 1032, expected a multiple of 16\n");
}

/// The second kernel does not wait for what the first one makes.
std::string in_a_row(bool with_wait) {
  Device device;
  const auto data = device.buffer<std::uint32_t>("data", 4);
  const auto first = [&](Smem smem) {
    let_next_kernel_come();
    warp_sync();
    if (thread() != 0) return;
    store(smem, U4{1, 2, 3, 4});
    fence_async_shared();
    bulk_store(data.data(), smem, 16);
    bulk_commit();
    bulk_wait_read();
  };
  const auto second = [&, with_wait](Smem smem) {
    if (thread() != 0) return;
    Patience patience;
    mbar_init(smem + 64, 1);
    mbar_init_fence();
    mbar_expect(smem + 64, 16);
    if (with_wait) wait_for_kernel_before();
    bulk_load(smem, data.data(), 16, smem + 64);
    mbar_wait(smem + 64, 0, patience);
  };
  return found(device,
               {Kernel{.name = "first", .threads = 32, .shared_bytes = 128, .body = first},
                Kernel{.name = "second", .threads = 32, .shared_bytes = 128, .body = second, .early = true}});
}
TEST(EmulationFinds, AKernelThatDoesNotWaitForTheOneBefore) {
  EXPECT_EQ(in_a_row(true), "");
  EXPECT_EQ(in_a_row(false),
            "race: a bulk store of thread 0 of block 0 writes byte 0 of data, which a copy for the mbarrier "
            "at 64 of block 0 "
            "reads; nothing orders the two\n");
}

/// Any barrier, fence or wait of a kernel can be left out from outside.
TEST(EmulationFinds, WhatIsMissingWithoutAStep) {
  Device device;
  const Kernel kernel{.name = "kernel", .threads = 64, .shared_bytes = 256, .body = [](Smem smem) {
                        store(smem + 4 * thread(), thread());
                        barrier(Barrier{1}, 64);
                        load_u32(smem + 4 * (63 - thread()));
                        warp_sync();
                      }};
  EXPECT_EQ(text_of(device.run({kernel})), "");
  std::vector<emulation::Step> steps(device.steps().begin(), device.steps().end());
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].instruction, "barrier");
  EXPECT_EQ(steps[1].instruction, "warp_sync");
  EXPECT_EQ(steps[0].file, "faults_test.cpp");
  const auto without = [](const emulation::Step& left_out) {
    return emulation::Options{.plant = [left_out](const emulation::Step& step) {
      return step == left_out ? emulation::Planted::left_out : emulation::Planted::nothing;
    }};
  };
  EXPECT_NE(device.run({kernel}, without(steps[0])).size(), 0u);
  EXPECT_EQ(device.run({kernel}, without(steps[1])).size(), 0u);
}

}  // namespace
}  // namespace fla::flash_kda
