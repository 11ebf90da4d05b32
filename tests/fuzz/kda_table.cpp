#include "fla/ops/kda/kda.h"

namespace fla {

/// For programs that are made from few sources: kda's own has its functions with it.
ArgumentTable KdaArgs::arguments() { FLA_RETURN_RECURRENCE_TABLE(KdaArgs, FLA_KDA_ARGUMENTS); }

}  // namespace fla
