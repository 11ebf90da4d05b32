#include "fla/c_api.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/device_memory.h"
#include "fla/core/dlpack_abi.h"
#include "fla/core/errors.h"
#include "fla/core/json_line.h"
#include "fla/core/suggest.h"
#include "fla/core/version.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/settings/policy.h"

namespace fla {
namespace {

static_assert(sizeof(fla_argument) == 24 && sizeof(fla_result) == 16 && sizeof(fla_options) == 40);
static_assert(sizeof(DLTensor) == sizeof(dlpack::Tensor) &&
              offsetof(DLTensor, byte_offset) == offsetof(dlpack::Tensor, byte_offset));
static_assert(offsetof(DLManagedTensor, deleter) == offsetof(dlpack::ManagedTensor, deleter));

std::string& last_error() {
  thread_local std::string text;
  return text;
}

fla_status failed(fla_status code, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {
    last_error().clear();  // no memory for what there is to say
  }
  return code;
}

/// body(), with what it throws as a code and a text.
template <class Body>
fla_status guarded(Body&& body) noexcept {
  try {
    body();
    return FLA_OK;
  } catch (const InvalidArgument& error) {
    return failed(FLA_INVALID_ARGUMENT, error.what());
  } catch (const ConfigError& error) {
    return failed(FLA_CONFIG_ERROR, error.what());
  } catch (const DeviceLost& error) {
    return failed(FLA_DEVICE_LOST, error.what());
  } catch (const BackendError& error) {
    return failed(FLA_BACKEND_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return failed(FLA_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(FLA_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(FLA_INTERNAL_ERROR, "an exception of an unknown type");
  }
}

[[noreturn]] void null_pointer(std::string_view argument, std::string_view expected) {
  throw InvalidArgument(argument, "expected " + std::string(expected) + ", got a null pointer");
}

void expect_pointer(const void* pointer, std::string_view argument, std::string_view what) {
  if (pointer == nullptr) null_pointer(argument, what);
}

template <class Entry>
std::span<Entry> list_of(Entry* entries, std::size_t count, std::string_view name) {
  if (count > 0) expect_pointer(entries, name, std::to_string(count) + (count == 1 ? " entry" : " entries"));
  return {entries, count};
}

std::string_view name_of(const char* name, std::string_view list, std::size_t index) {
  if (name == nullptr) null_pointer(std::string(list) + "[" + std::to_string(index) + "]", "a name");
  return name;
}

/// Options as this library knows them, of a program that may know fewer or more.
fla_options read_options(const fla_options* given) {
  fla_options known{};
  if (given == nullptr) return known;
  if (given->size < sizeof(std::size_t)) {
    throw InvalidArgument("options",
                          "expected size to be sizeof(fla_options), got " + std::to_string(given->size));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  for (std::size_t i = sizeof(known); i < given->size; ++i) {
    if (bytes[i] != std::byte{}) {
      throw InvalidArgument("options", "expected what version " + std::to_string(FLA_C_API_VERSION) +
                                           " has, got an option of a later one at byte " + std::to_string(i));
    }
  }
  std::memcpy(&known, given, std::min(given->size, sizeof(known)));
  return known;
}

const char* name_of_kind(fla_kind kind) {
  switch (kind) {
    case FLA_TENSOR: return "a tensor";
    case FLA_NUMBER: return "a number";
    case FLA_INTEGER: return "an integer";
    case FLA_FLAG: return "a flag";
    default: return nullptr;
  }
}

fla_kind kind_of(const Argument& argument) {
  switch (argument.kind) {
    case ArgumentKind::number: return FLA_NUMBER;
    case ArgumentKind::integer: return FLA_INTEGER;
    case ArgumentKind::flag: return FLA_FLAG;
    default: return FLA_TENSOR;
  }
}

/// One call's arguments, from names and values to the function's struct.
class Call {
 public:
  Call(const char* name, const fla_argument* arguments, std::size_t count)
      : name_(name == nullptr ? "" : name) {
    expect_pointer(name, "function", "the name of a function");
    const auto [op, function] = dispatch::parse_function_name(name_);
    is_front_ = function.empty() || function == op;
    function_ = is_front_ ? &dispatch::find_front(op) : &dispatch::find_function(op, function);
    if (erased() == nullptr)
      throw InvalidArgument("function",
                            "expected one that takes and returns tensors, got '" + std::string(name_) + "'");
    table_ = function_->description().arguments;
    memory_ = std::make_unique<std::max_align_t[]>(erased()->size / sizeof(std::max_align_t) + 1);
    erased()->construct(args());
    const auto given = list_of(arguments, count, "arguments");
    naming_op(op, [&] {
      for (std::size_t i = 0; i < given.size(); ++i) take(given[i], i);
    });
  }

  std::string_view op() const { return function_->op(); }
  void* args() const { return memory_.get(); }
  const dispatch::ErasedArgs* erased() const { return function_->description().erased; }

  /// What the front door picks for these arguments.
  const dispatch::FunctionBase& function() const {
    const bool picks = is_front_ && erased()->front_door != nullptr;
    return picks ? dispatch::find_function(op(), erased()->front_door(args())) : *function_;
  }

  void take(const fla_options& options) {
    stream_ = {options.stream};
    erased()->set_stream(args(), stream_);
    erased()->set_workspace(args(), {options.workspace, options.workspace_bytes});
  }

  /// Asks for the results that are listed.
  void ask_for(std::span<fla_result> results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string_view name = name_of(results[i].name, "results", i);
      const Argument* output = find_argument(table_, name);
      if (output == nullptr || !is_result(table_, *output)) {
        throw InvalidArgument("results", "expected names of results, got '" + std::string(name) + "'" +
                                             suggestion(name, names_of_results()));
      }
      for (std::size_t j = 0; j < i; ++j) {
        if (name == results[j].name)
          throw InvalidArgument("results", "expected each name once, got '" + std::string(name) + "' twice");
      }
      if (output->given(args()))
        throw InvalidArgument(name, "expected memory for it or its name among the results, got both");
    }
    for (const fla_result& result : results) ask_for(*find_argument(table_, result.name));
    const auto written = [this](const Argument& argument) {
      return argument.kind == ArgumentKind::output && argument.given(args());
    };
    if (results.empty() && std::ranges::none_of(table_, written)) {
      std::string names;
      for (const std::string& each : names_of_results()) names += (names.empty() ? "" : ", ") + each;
      throw InvalidArgument("results", "expected one of " + names + " at least, or memory for it, got none");
    }
  }

  void run(std::span<fla_result> results) const {
    std::map<std::string_view, Tensor> found;
    const dispatch::FunctionBase& chosen = function();
    chosen.description().run(chosen, args(),
                             [&](std::string_view name, const Tensor& tensor) { found[name] = tensor; });
    for (const auto& [name, gradient] : gradients_) found[name] = gradient;  // what came out does not own it
    std::vector<Managed> exported;
    for (const fla_result& result : results) {
      const Tensor& tensor = found[result.name];
      exported.emplace_back(tensor.defined() ? tensor.to_dlpack() : nullptr);
    }
    for (std::size_t i = 0; i < results.size(); ++i) results[i].tensor = exported[i].release();
  }

  Explanation explain() const { return dispatch::explain(function(), args()); }

 private:
  struct Delete {
    void operator()(DLManagedTensor* tensor) const { tensor->deleter(tensor); }
  };
  using Managed = std::unique_ptr<DLManagedTensor, Delete>;

  void take(const fla_argument& given, std::size_t index) {
    const std::string_view name = name_of(given.name, "arguments", index);
    const Argument* argument = find_argument(table_, name);
    if (argument == nullptr) {
      std::vector<std::string> known;
      for (const Argument& each : table_) known.emplace_back(each.name);
      throw InvalidArgument(name, "is no argument of " + std::string(name_) + suggestion(name, known));
    }
    const auto row = static_cast<std::size_t>(argument - table_.data());
    taken_.resize(table_.size());
    if (taken_[row]) throw InvalidArgument(name, "expected once, got twice");
    taken_[row] = true;
    if (given.kind != kind_of(*argument)) {
      const char* got = name_of_kind(given.kind);
      throw InvalidArgument(name, "expected " + std::string(name_of_kind(kind_of(*argument))) + ", got " +
                                      (got != nullptr ? got : "kind " + std::to_string(given.kind)));
    }
    switch (given.kind) {
      case FLA_NUMBER: argument->number(args()) = static_cast<float>(given.value.number); break;
      case FLA_INTEGER: argument->integer(args()) = given.value.integer; break;
      case FLA_FLAG:
        if (given.value.flag != 0 && given.value.flag != 1)
          throw InvalidArgument(name, "expected 0 or 1, got " + std::to_string(given.value.flag));
        argument->flag(args()) = given.value.flag == 1;
        break;
      default:
        expect_pointer(given.value.tensor, name, "a tensor");
        argument->tensor(args()) =
            dlpack::view_of(*reinterpret_cast<const dlpack::Tensor*>(given.value.tensor), name);
    }
  }

  /// Sets the flag "output_<name>"; gives a gradient memory, as which it is asked for.
  void ask_for(const Argument& output) {
    if (const Argument* flag = find_argument(table_, "output_" + std::string(output.name)))
      flag->flag(args()) = true;
    if (output.needs.empty()) return;
    const TensorView& input = find_argument(table_, output.needs)->tensor(args());
    if (!input.defined()) return;
    Tensor& gradient = gradients_[output.name];
    gradient = empty_on(input.shape(), input.dtype(), input.device(), stream_);
    output.tensor(args()) = gradient;
  }

  std::vector<std::string> names_of_results() const {
    std::vector<std::string> names;
    for (const Argument& each : table_) {
      if (is_result(table_, each)) names.emplace_back(each.name);
    }
    return names;
  }

  std::string_view name_;
  const dispatch::FunctionBase* function_;
  bool is_front_;
  ArgumentTable table_;
  std::unique_ptr<std::max_align_t[]> memory_;
  std::vector<bool> taken_;
  std::map<std::string_view, Tensor> gradients_;
  Stream stream_;
};

char* copy_of(const std::string& text) {
  const std::size_t bytes = text.size() + 1;
  return static_cast<char*>(std::memcpy(new char[bytes], text.c_str(), bytes));
}

/// options.backend, in force.
struct ChosenBackend {
  ChosenBackend(std::string_view op, const fla_options& options) {
    if (options.backend != nullptr) scope.emplace(policy_for(op, options.backend));
  }
  std::optional<ScopedPolicy> scope;
};

nlohmann::ordered_json row_of(const Argument& argument) {
  static constexpr std::array kKinds{"tensor", "index", "output", "number", "integer", "flag"};
  static constexpr std::array kNeeds{"required", "optional", "either"};
  nlohmann::ordered_json row{{"name", argument.name},
                             {"kind", kKinds[static_cast<std::size_t>(argument.kind)]},
                             {"need", kNeeds[static_cast<std::size_t>(argument.need)]}};
  if (argument.is_tensor())
    row.update({{"dtypes", to_string(argument.dtypes)}, {"shape", argument.shape.text}});
  if (!argument.needs.empty()) row["needs"] = argument.needs;
  row["doc"] = argument.doc;
  return row;
}

std::string functions_json() {
  nlohmann::ordered_json functions = nlohmann::ordered_json::array();
  for (const dispatch::FunctionBase* function : dispatch::erased_functions()) {
    const ArgumentTable table = function->description().arguments;
    nlohmann::ordered_json arguments = nlohmann::ordered_json::array(),
                           results = nlohmann::ordered_json::array();
    for (const Argument& argument : table) {
      arguments.push_back(row_of(argument));
      if (is_result(table, argument)) results.push_back(argument.name);
    }
    functions.push_back({{"name", std::string(function->op()) + "." + std::string(function->name())},
                         {"arguments", arguments},
                         {"results", results}});
  }
  return json_line(nlohmann::ordered_json{{"functions", functions}});
}

}  // namespace
}  // namespace fla

extern "C" {

fla_status fla_call(const char* function, const fla_argument* arguments, size_t argument_count,
                    fla_result* results, size_t result_count, const fla_options* options) {
  if (results != nullptr) {
    for (size_t i = 0; i < result_count; ++i) results[i].tensor = nullptr;
  }
  return fla::guarded([&] {
    const fla_options set = fla::read_options(options);
    const std::span<fla_result> listed = fla::list_of(results, result_count, "results");
    fla::Call call(function, arguments, argument_count);
    call.take(set);
    fla::naming_op(call.op(), [&] { call.ask_for(listed); });
    const fla::ChosenBackend chosen(call.op(), set);
    call.run(listed);
  });
}

fla_status fla_workspace_size(const char* function, const fla_argument* arguments, size_t argument_count,
                              size_t* bytes) {
  return fla::guarded([&] {
    fla::expect_pointer(bytes, "bytes", "a place for the size");
    *bytes = 0;
    const fla::Call call(function, arguments, argument_count);
    *bytes = fla::naming_op(call.op(), [&] { return call.erased()->workspace_size(call.args()); });
  });
}

fla_status fla_explain(const char* function, const fla_argument* arguments, size_t argument_count,
                       const fla_options* options, fla_format format, char** text) {
  return fla::guarded([&] {
    fla::expect_pointer(text, "text", "a place for the text");
    *text = nullptr;
    if (format != FLA_TEXT && format != FLA_JSON)
      throw fla::InvalidArgument("format", "expected FLA_TEXT or FLA_JSON, got " + std::to_string(format));
    const fla_options set = fla::read_options(options);
    fla::Call call(function, arguments, argument_count);
    call.take(set);
    const fla::ChosenBackend chosen(call.op(), set);
    const fla::Explanation explanation = call.explain();
    *text = fla::copy_of(format == FLA_JSON ? explanation.json() : explanation.text());
  });
}

fla_status fla_functions(char** json) {
  return fla::guarded([&] {
    fla::expect_pointer(json, "json", "a place for the text");
    *json = nullptr;
    *json = fla::copy_of(fla::functions_json());
  });
}

void fla_free(char* text) { delete[] text; }

const char* fla_last_error(void) { return fla::last_error().c_str(); }

uint32_t fla_c_api_version(void) { return FLA_C_API_VERSION; }

const char* fla_version(void) { return fla::kVersion.data(); }

}  // extern "C"
