#pragma once

#include "backends/flash_kda/ptx.cuh"

/// Named barriers. A CTA has ids 1 to 15 and plays one role, so that kernels and roles use the same ids for
/// different things. [2 …]: two barriers with consecutive ids, `first + i`.
///
/// Threads that wait (bar.sync) see what all that arrived (bar.arrive) wrote before. Those that wait in one
/// round of a barrier do so at one instruction: bar.sync is the aligned form.
namespace fla::flash_kda {

enum class Barrier : std::uint32_t {
  // ---- forward, in every role, and part
  cta = 9,  ///< all threads wait: the role is known; mbarriers are initialised; all are done

  // ---- prep: warps 0 to 7 scale, 8 to 15 fold (warpgroups F0 and F1), 16 and 17 carry, 18 and 19 go ahead
  scaling = 1,  ///< the scaling warps wait for each other
  folding = 2,  ///< F0 and F1 wait: the pairs are read. Then F1 arrives, F0 waits: F1 has M, its T2 is there
  kr_read = 3,  ///< F0 waits: all of it has read Kr, whose place K^r takes
  // [2 places] the scaling warps and the one that finds arrive, the folding warps wait: the task is scaled,
  // the record of the next but one is there
  scaled = 4,
  folds_next = 15,   ///< a folding warp arrives, those that go ahead wait: the next task is folded
  t2_read = 6,       ///< F0 arrives, F1 waits: nobody reads T2 any more, whose place B takes
  m_stored = 8,      ///< the two masking warps of F0 arrive, F1 waits: M is there
  inverted = 10,     ///< the four solving warps wait: the diagonal blocks of T are there
  folded = 11,       ///< [2 places] the folding warps arrive, its carrying warp waits: the packet is there
  first_noted = 13,  ///< the carrying warps arrive, the folding warps wait: they have read the first records
  f0_solved = 14,    ///< F0 arrives, F1 waits: F0's rows of T2^T are there

  // ---- state and part: two warpgroups hold the state
  turn = 1,    ///< [2 warpgroups] additive: the other one has multiplied, this one may
  chains = 8,  ///< both warpgroups wait: nobody reads the stages whose place the last state takes, or P

  // ---- part alone
  transition = 6,  ///< [2 warpgroups] its four warps wait: its half of P is there

  // ---- combine, plan
  combine = 1,  ///< all threads wait: A is there, the stage before is read
  plan = 1,     ///< all threads wait for what the step before wrote
};

FLA_DEVICE Barrier operator+(Barrier first, std::uint32_t i) {
  return static_cast<Barrier>(static_cast<std::uint32_t>(first) + i);
}

}  // namespace fla::flash_kda
