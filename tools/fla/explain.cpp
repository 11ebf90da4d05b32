#include <iostream>
#include <nlohmann/json.hpp>

#include "fla/core/errors.h"
#include "fla/core/json_line.h"
#include "tools/cases/case.h"
#include "tools/fla/command.h"
#include "tools/fla/devices.h"
#include "tools/fla/settings.h"
#include "tools/fla/synthetic_call.h"

namespace fla::command {
namespace {

struct ExplainOptions {
  std::string op, in, shape, dtype = "f32", device = "cpu", function;
  std::vector<std::string> options, with;
  bool json = false;
};

/// The choice is one by metadata, which can be asked about on any machine; a device that is not there is said
/// beside it, because nothing would run.
ExitCode print(const cases::Op& op, const ExplainOptions& options, const void* args) {
  const Explanation explanation = op.explain(op.function_or_front_door(options.function, args), args);
  std::string note = absence_of(parse_device(options.device));
  if (!note.empty()) note += "; a call would be refused";
  if (options.json) {
    auto json = nlohmann::ordered_json::parse(explanation.json());
    if (!note.empty()) json["note"] = note;
    std::cout << json_line(json) << '\n';
  } else {
    std::cout << explanation.text() << (note.empty() ? "" : "note: " + note + "\n");
  }
  return kDone;
}

ExitCode explain_file(const ExplainOptions& options) {
  // Nothing is run, so the file may be asked about for a device that is not there: the tensors stay where
  // they are.
  cases::Case call = cases::read_case(options.in, options.op);
  for (const auto& [name, value] : parse_settings(options.options, "1")) {
    cases::set_option(call.op->arguments, call.args.get(), name, value);
  }
  cases::give_pools(call);
  const Device device = parse_device(options.device);
  for (const Argument& argument : call.op->arguments) {
    if (!argument.is_tensor() || argument.kind == ArgumentKind::index) continue;
    TensorView& tensor = argument.tensor(call.args.get());
    if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), device);
  }
  cases::validate(call);
  for (const std::string& warning : call.warnings) complain("warning: " + call.file + ": " + warning);
  return print(*call.op, options, call.args.get());
}

ExitCode explain_shape(const ExplainOptions& options) {
  const cases::Op& op = cases::find_op(options.op, options.function);
  std::vector<OptionalTensor> with;
  for (const std::string& word : options.with) with.push_back(parse_optional_tensor(word));
  const SyntheticCall call =
      make_synthetic_call(op, parse_shape(options.shape), parse_dtype(options.dtype),
                          parse_device(options.device), parse_settings(options.options, "1"), with);
  return print(op, options, call.args.get());
}

}  // namespace

void add_explain(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("explain", "who would take a call, and why not the others; runs nothing");
  auto options = std::make_shared<ExplainOptions>();
  command->add_option("op", options->op, "the op, or a stage such as common.l2_norm")->required();
  auto* in = command->add_option("--in", options->in, "a case file with the call");
  auto* shape = command->add_option(
      "--shape", options->shape,
      "the call's sizes: B=1,T=8192,H=32,HV=32,K=128,V=128; N=8: that many packed sequences, "
      "P=64: slots of a pool of states; short_conv: D=4096,W=4; merge: C=2; rings: L=16");
  in->excludes(shape);
  command->add_option("--dtype", options->dtype, "with --shape: f32, bf16 or f16")->needs(shape);
  command
      ->add_option("--with", options->with,
                   "with --shape: optional tensors, NAME, NAME=DTYPE or NAME=DTYPE@DEVICE, such as "
                   "initial_state=bf16,state_indices=i32@cuda; indices are i64 on cpu unless told")
      ->needs(shape)
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--device", options->device, "cpu, cuda or cuda:N");
  command->add_option("--function", options->function,
                      "the op's function; the front door's choice if left out");
  command->add_option("--option", options->options, "an option of the op, NAME=VALUE; NAME alone sets a flag")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([&chosen, options] {
    if (options->in.empty() == options->shape.empty()) {
      throw CLI::ValidationError("explain", "expected --in FILE or --shape SIZES");
    }
    chosen = [options] { return options->in.empty() ? explain_shape(*options) : explain_file(*options); };
  });
}

}  // namespace fla::command
