#include "fla/ops/step/call_of.h"

#include "fla/ops/common/views_of.h"
#include "fla/ops/gated_rms_norm/call_of.h"
#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/short_conv/call_of.h"

namespace fla::step {

StepCall call_of(const Arguments& args, const StepResult& result, const Between& between) {
  const Sizes sizes = sizes_of(args);
  const Device device = args.x.device();
  const TensorView qkv(between.qkv, args.x.dtype(), args.x.shape(), device),
      o(between.o, args.x.dtype(), {sizes.B, 1, sizes.HV, sizes.V}, device);
  StepCall call;
  call.conv = fla::call_of(ShortConvArgs{.x = args.x,
                                         .weight = args.conv_weight,
                                         .bias = args.conv_bias,
                                         .initial_state = args.conv_state,
                                         .use_silu = true,
                                         .state_indices = args.state_indices},
                           ShortConvResult{Tensor::over(qkv), Tensor::over(args.conv_state)});
  call.recurrence = with_recurrence(args, between, [&](const recurrence::Arguments& arguments) {
    return recurrence::call_of(arguments, {Tensor::over(o), Tensor::over(args.state)});
  });
  call.norm = fla::call_of(GatedRmsNormArgs{.x = o,
                                            .g = args.z,
                                            .weight = args.norm_weight,
                                            .eps = args.norm_eps,
                                            .use_sigmoid = args.norm_use_sigmoid},
                           GatedRmsNormResult{result.o});
  call.norm.slots = common::indices_of(args.state_indices);
  call.norm.pool = args.state.size(0);
  return call;
}

}  // namespace fla::step
