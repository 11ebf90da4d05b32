#include "tools/conformance/trial.h"

#include "fla/core/errors.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {

bool is_valid(const SearchedOp& op, const MadeCall& call) {
  try {
    op.op().validate(call.args());
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

std::string describe(const MadeCall& call) {
  std::string text;
  for (const Argument& argument : call.form().table()) {
    const Choice& choice = call.form()[argument.name];
    if (!choice.given) continue;
    text += (text.empty() ? "" : " ") + std::string(argument.name);
    if (argument.kind == ArgumentKind::number || argument.kind == ArgumentKind::integer)
      text += "=" + std::to_string(choice.number);
    if (!argument.is_tensor()) continue;
    const TensorView& tensor = argument.tensor(call.args());
    text += "=" + std::string(name_of(tensor.dtype())) + shape_text(tensor.shape());
    if (!tensor.is_contiguous()) text += " strides " + shape_text(tensor.strides());
    if (choice.in_place) text += " in place of " + std::string(argument.in_place_of);
  }
  return text;
}

std::string describe(const Target& target) {
  return target.function + (target.indices_on_host ? " with indices on the host" : "");
}

Trial::Outcome Trial::operator()(const CallForm& form, const std::function<void(MadeCall&)>& change) {
  MadeCall call(op_, form);
  if (!is_valid(op_, call)) return Outcome::invalid;
  const Answer answer = op_.ask(target_, call.args());
  if (!answer.takes()) {
    ++report_.refused;
    reason_ = answer.reason;
    return Outcome::refused;
  }
  ++report_.calls;
  call.fill(1);
  change(call);
  wrong_ = wrong_about(call);
  if (wrong_.empty()) return Outcome::right;
  wrong_ += "[" + describe(call) + "]";
  return Outcome::wrong;
}

std::string Trial::wrong_about(const MadeCall& call) {
  try {
    const std::shared_ptr<const void> expected = op_.expected(call.args());
    const std::vector<cases::NamedTensor> results = op_.run(target_, call.args());
    return op_.wrong(results, expected.get(), call.args(), target_) + call.damage(results);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what() + "; ";
  }
}

std::string Trial::ignored(const CallForm& form) {
  MadeCall call(op_, form);
  call.fill(1);
  std::string names;
  try {
    const auto bytes = [&] {
      std::vector<std::byte> all;
      for (const cases::NamedTensor& result : op_.run(target_, call.args())) {
        const std::vector<std::byte> more = bytes_of(result.tensor);
        all.insert(all.end(), more.begin(), more.end());
      }
      return all;
    };
    const std::vector<std::byte> before = bytes();
    for (const Argument& argument : form.table()) {
      if (argument.kind != ArgumentKind::tensor || !form[argument.name].given) continue;
      call.fill(argument, 2);
      if (are_equal(bytes(), before)) names += (names.empty() ? "" : ", ") + std::string(argument.name);
      call.fill(argument, 1);
    }
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {
    // That it throws is told of the call itself.
  }
  return names;
}

}  // namespace fla::conformance
