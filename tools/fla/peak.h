#pragma once

#include <memory>
#include <string>

/// What this machine can do at most: the yardsticks of `fla bench`, measured in the same run and on as many
/// threads as the kernels that are held to them.
namespace fla::command {

/// Multiply-adds on registers alone, f32, counted as two operations each, on num_threads() threads: the best
/// of several loops, because a core may run the same loop at half its rate, depending on how the registers
/// were filled. Of the SIMD targets that this machine has the fastest counts, or the one that
/// FLA_CPU_SIMD_TARGET names.
struct MultiplyAddRate {
  double operations_per_s = 0;
  std::string target;  ///< as Highway calls it
};
MultiplyAddRate measure_multiply_add_rate();

/// Bytes read and written per second on num_threads() threads over memory far larger than the caches: the
/// better of multiplying in place and copying from one place to another, the median of several passes.
class CopyBandwidth {
 public:
  CopyBandwidth();
  double measure();

 private:
  std::shared_ptr<float> from_, to_;
};

}  // namespace fla::command
