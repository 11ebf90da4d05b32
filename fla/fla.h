#pragma once

// Everything that a program needs.
#include "fla/core/device.h"
#include "fla/core/dtype.h"
#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/core/half.h"
#include "fla/core/tensor.h"
#include "fla/core/threads.h"
#include "fla/dispatch/counters.h"
#include "fla/dispatch/dispatch.h"
#include "fla/dispatch/explain.h"
#include "fla/dispatch/plan.h"
#include "fla/dispatch/policy.h"
#include "fla/dispatch/registry.h"
#include "fla/ops/kda/kda.h"
