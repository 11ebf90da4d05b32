#include "tools/conformance/agreement.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "fla/dispatch/observe/ops.h"
#include "tools/cases/accuracy.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {
namespace {

struct Allowed {
  double o, final_state, checkpoints;
};

Allowed allowed(const RecurrenceResult& result, const recurrence::Arguments& args,
                DType precision = DType::f32) {
  const double inputs = std::max({cases::tolerance(args.q.dtype()), cases::tolerance(args.k.dtype()),
                                  cases::tolerance(args.v.dtype()), cases::tolerance(precision)});
  const auto of_states = [inputs](const TensorView& states) {
    return states.defined() ? std::max(inputs, cases::tolerance(states.dtype())) : inputs;
  };
  return {inputs, of_states(result.final_state), of_states(args.checkpoints)};
}

}  // namespace

std::string too_far(std::string_view name, double error, double limit) {
  if (error <= limit) return "";
  char text[64];
  std::snprintf(text, sizeof text, " is off by %.3g, allowed %.3g; ", error, limit);
  return std::string(name) + text;
}

std::vector<std::string> golden_files(const Options& options, std::string_view op) {
  std::vector<std::string> files;
  if (options.golden_dir.empty()) return files;
  for (const auto& entry : std::filesystem::directory_iterator(options.golden_dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(op) && name.ends_with(".safetensors")) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

cases::Reference expected_of(const cases::Case& golden) {
  cases::Reference reference;
  for (const cases::NamedTensor& expected : golden.expected) {
    auto& values = expected.name == "o" ? reference.o : reference.final_state;
    for_each_offset(expected.tensor,
                    [&](std::int64_t offset) { values.push_back(cases::element(expected.tensor, offset)); });
  }
  return reference;
}

BackendInfo info_of(std::string_view op, std::string_view backend) {
  for (const OpStatus& of : ops()) {
    if (of.name != op) continue;
    for (const BackendStatus& status : of.backends) {
      if (status.info.name == backend) return status.info;
    }
  }
  return kOriginalKernel;
}

std::string disagreement(const RecurrenceResult& result, const cases::Reference& reference,
                         const recurrence::Arguments& args, DType precision) {
  const bool asked = args.output_final_state || args.final_state.defined();
  if (asked != result.final_state.defined())
    return asked ? "gives no final_state; " : "gives a final_state that was not asked for; ";
  const Allowed limits = allowed(result, args, precision);
  const cases::Errors errors = cases::errors_of(result, reference);
  return too_far("o", errors.o, limits.o) + too_far("final_state", errors.final_state, limits.final_state) +
         too_far("checkpoints", cases::checkpoint_error(args.checkpoints, reference), limits.checkpoints);
}

std::string disagreement(const RecurrenceResult& result, const RecurrenceResult& exact,
                         const recurrence::Arguments& args, const TensorView& exact_checkpoints) {
  const Allowed limits = allowed(result, args);
  std::string text = too_far("o", cases::relative_error(result.o, exact.o), 2 * limits.o);
  if (exact_checkpoints.defined()) {
    text += too_far("checkpoints", cases::relative_error(args.checkpoints, exact_checkpoints),
                    2 * limits.checkpoints);
  }
  if (result.final_state.defined() != exact.final_state.defined())
    return text + "only one has a final_state; ";
  if (!result.final_state.defined()) return text;
  return text + too_far("final_state", cases::relative_error(result.final_state, exact.final_state),
                        2 * limits.final_state);
}

bool same_bits(const RecurrenceResult& a, const RecurrenceResult& b) {
  if (!same_bytes(a.o, b.o) || a.final_state.defined() != b.final_state.defined()) return false;
  return !a.final_state.defined() || same_bytes(a.final_state, b.final_state);
}

std::string describe(ArgumentTable table, const void* args) {
  std::string text;
  for (const Argument& argument : table) {
    if (argument.is_tensor()) {
      const TensorView& tensor = argument.tensor(args);
      if (!tensor.defined()) continue;
      text += std::string(argument.name) + "=" + std::string(name_of(tensor.dtype())) +
              shape_text(tensor.shape());
      if (!tensor.is_contiguous()) text += " strides " + shape_text(tensor.strides());
      text += " ";
    } else if (argument.given(args)) {
      text += std::string(argument.name);
      if (argument.kind == ArgumentKind::number) text += "=" + std::to_string(*argument.number(args));
      if (argument.kind == ArgumentKind::integer) text += "=" + std::to_string(*argument.integer(args));
      text += " ";
    }
  }
  return text;
}

}  // namespace fla::conformance
