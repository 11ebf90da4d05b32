#include "fla/python/call.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/python/gil.h"
#include "fla/python/scope.h"
#include "fla/python/torch_api.h"

namespace py = pybind11;

namespace fla::python {
namespace {

[[noreturn]] void wrong_type(const Argument& argument, const char* expected, PyObject* got) {
  throw py::type_error(std::string(argument.name) + ": expected " + expected + ", got " +
                       Py_TYPE(got)->tp_name);
}

float number_of(const Argument& argument, PyObject* value) {
  const double number = PyFloat_AsDouble(value);
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    wrong_type(argument, "a number", value);
  }
  return static_cast<float>(number);
}

/// Python's own and NumPy's; True and False are no numbers here.
std::int64_t integer_of(const Argument& argument, PyObject* value) {
  if (PyBool_Check(value) || !PyIndex_Check(value)) wrong_type(argument, "a whole number", value);
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  const std::int64_t integer = index ? PyLong_AsLongLong(index.ptr()) : -1;
  if (integer != -1 || !PyErr_Occurred()) return integer;
  const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
  PyErr_Clear();
  if (!large) wrong_type(argument, "a whole number", value);
  throw InvalidArgument(argument.name,
                        "expected a whole number of 64 bits, got " + std::string(py::str(index)));
}

/// Python's own, NumPy's and whole numbers: what is neither true nor false is no switch.
bool flag_of(const Argument& argument, PyObject* value) {
  if (value == Py_True || value == Py_False) return value == Py_True;
  const bool looks_right = PyIndex_Check(value) ||
                           std::string_view(Py_TYPE(value)->tp_name).find("bool") != std::string_view::npos;
  const int truth = looks_right ? PyObject_IsTrue(value) : -1;
  if (truth < 0) {
    PyErr_Clear();
    wrong_type(argument, "True or False", value);
  }
  return truth != 0;
}

const char* name_in_python(DType type) {
  switch (type) {
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::f32: return "float32";
    case DType::i32: return "int32";
    case DType::i64: return "int64";
  }
  return "";
}

/// How new arrays of that one's library are made; None: nobody says.
py::object allocator_of(PyObject* array) {
  static PyObject* function = nullptr;
  if (function == nullptr)
    function = py::object(py::module_::import("fla_cpp._arrays").attr("allocator_of")).release().ptr();
  return py::reinterpret_borrow<py::object>(function)(py::handle(array));
}

/// Whether any shape with the right count of numbers is as good as the table's: models keep A_log, [HV], as
/// [1, 1, HV, 1].
bool is_list_of_numbers(const Argument& argument) {
  return argument.kind == ArgumentKind::tensor && argument.shape.first.rank == 1 &&
         argument.shape.second.rank == 0;
}

/// The same elements on one axis; the view as it is where no one stride leads from each to the next.
TensorView on_one_axis(const TensorView& view) {
  std::int64_t size = 1, stride = 1;
  for (int axis = view.rank() - 1; axis >= 0; --axis) {
    if (view.size(axis) == 1) continue;
    if (size == 1) {
      stride = view.stride(axis);
    } else if (view.stride(axis) != stride * size) {
      return view;
    }
    size *= view.size(axis);
  }
  return {view.data(), view.dtype(), std::array{size}, std::array{stride}, view.device()};
}

/// One call's arguments, from Python's values to the op's struct.
class Call {
 public:
  Call(const Op& op, PyObject* const* values) : op_(op), values_(values), stream_(values[op.table.size()]) {
    op.args.construct(args_.data());
  }

  bool is_for_torchs_dispatcher() const;
  void take_arguments();
  void take_outputs_from_framework();
  /// Tells torch that tensors of its are about to be written.
  void count_writes_in_torch() const;
  py::tuple results(std::span<Tensor> tensors) const;
  /// Returns when arrays whose owners do not know of the stream may go.
  void wait_where_needed() const;

  const void* args() const { return args_.data(); }

 private:
  bool is_given(std::size_t row) const { return values_[row] != Py_None; }
  bool is_asked_for(const ResultRule& rule) const {
    if (rule.gradient_of >= 0)
      return is_given(static_cast<std::size_t>(rule.gradient_of)) && !has_memory_for_gradients();
    return rule.asked_for < 0 || op_.table[static_cast<std::size_t>(rule.asked_for)].flag(args_.data());
  }
  bool has_memory_for_gradients() const {
    return std::ranges::any_of(op_.results, [this](const ResultRule& rule) {
      return rule.gradient_of >= 0 && is_given(rule.output);
    });
  }
  void take_rows();
  void take_tensor(std::size_t row, PyObject* value);
  bool names_slots() const;
  DType dtype_of(const ResultRule& rule) const;
  py::tuple dims_of(const ResultRule& rule, const AxisSizes& sizes) const;

  const Op& op_;
  PyObject* const* values_;
  alignas(std::max_align_t) std::array<std::byte, kMaxArgsSize> args_;
  CallStream stream_;
  BorrowedArrays arrays_;
  Kind kind_ = Kind::other;                       // of the first array, which is the caller's
  PyObject* first_ = nullptr;                     // that array
  Device device_;                                 // of the call: that of the first array
  std::array<py::object, kMaxResults> provided_;  // outputs that were made by the caller's framework
  py::object workspace_;
};

bool Call::is_for_torchs_dispatcher() const {
  const TorchApi* torch = torch_api();
  if (torch == nullptr) return false;
  PyObject* any = nullptr;
  bool subclass = false;
  for (std::size_t row = 0; row < op_.table.size(); ++row) {
    PyObject* value = values_[row];
    if (!op_.table[row].is_tensor() || value == Py_None) continue;
    const bool plain = torch->is_plain(value);
    if (plain) any = value;
    subclass = subclass || (!plain && PyObject_TypeCheck(value, torch->tensor));
  }
  if (subclass || any == nullptr) return subclass;
  if (torch->is_meta(any)) return true;
  if (torch->has_dispatch_modes() || torch->is_in_forward_mode() || torch->is_autocasting()) return true;
  if (!torch->records_gradients()) return false;
  for (std::size_t row = 0; row < op_.table.size(); ++row) {
    PyObject* value = values_[row];
    if (!op_.table[row].is_tensor() || value == Py_None || !torch->is_plain(value)) continue;
    if (torch->requires_grad(value)) return true;
  }
  return false;
}

void Call::take_tensor(std::size_t row, PyObject* value) {
  const Argument& argument = op_.table[row];
  const Kind kind = kind_of(value, argument.name);
  TensorView view = arrays_.view(argument, value, kind, stream_);
  if (is_list_of_numbers(argument) && view.rank() != 1) view = on_one_axis(view);
  if (first_ == nullptr) {
    first_ = value;
    kind_ = kind;
    device_ = view.device();
  }
  argument.tensor(args_.data()) = view;
}

void Call::take_arguments() {
  try {
    naming_op(op_.name, [this] { take_rows(); });
  } catch (const py::type_error& error) {
    throw py::type_error(std::string(op_.name) + ": " + error.what());
  }
  op_.args.set_stream(args_.data(), stream_.known());
}

void Call::take_rows() {
  for (std::size_t row = 0; row < op_.table.size(); ++row) {
    if (!is_given(row)) continue;
    const Argument& argument = op_.table[row];
    PyObject* value = values_[row];
    switch (argument.kind) {
      case ArgumentKind::number: argument.number(args_.data()) = number_of(argument, value); break;
      case ArgumentKind::integer: argument.integer(args_.data()) = integer_of(argument, value); break;
      case ArgumentKind::flag: argument.flag(args_.data()) = flag_of(argument, value); break;
      default: take_tensor(row, value);
    }
  }
}

bool Call::names_slots() const {
  for (std::size_t row = 0; row < op_.table.size(); ++row) {
    if (is_given(row) && op_.table[row].names_slots()) return true;
  }
  return false;
}

DType Call::dtype_of(const ResultRule& rule) const {
  if (rule.like < 0) return DType::f32;
  const TensorView& like = op_.table[static_cast<std::size_t>(rule.like)].tensor(args_.data());
  return like.defined() ? like.dtype() : DType::f32;
}

py::tuple Call::dims_of(const ResultRule& rule, const AxisSizes& sizes) const {
  if (rule.gradient_of >= 0) {
    const auto shape = op_.table[static_cast<std::size_t>(rule.gradient_of)].tensor(args_.data()).shape();
    py::tuple dims(shape.size());
    for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = shape[d];
    return dims;
  }
  const ShapeRule& shape = rule_in_force(op_.table, op_.table[rule.output], args_.data());
  py::tuple dims(static_cast<std::size_t>(shape.rank));
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = shape.dims[d].in(sizes);
  return dims;
}

/// On a GPU results and workspace come from the allocator of the arrays' own library, which knows how long
/// memory is needed on which stream, and in a graph that is being captured.
void Call::take_outputs_from_framework() {
  if (device_.is_cpu() || kind_ == Kind::numpy) return;
  const py::object empty = allocator_of(first_);
  if (empty.is_none()) return;
  const AxisSizes sizes = naming_op(op_.name, [this] { return check_arguments(op_.table, args_.data()); });
  for (std::size_t i = 0; i < op_.results.size(); ++i) {
    const ResultRule& rule = op_.results[i];
    const Argument& output = op_.table[rule.output];
    // A pool of states has to be the caller's.
    const bool pooled = !output.in_place_of.empty() && names_slots();
    if (is_given(rule.output) || !is_asked_for(rule) || pooled) continue;
    py::tuple dims = dims_of(rule, sizes);
    provided_[i] = empty(py::handle(first_), dims, name_in_python(dtype_of(rule)));
    take_tensor(rule.output, provided_[i].ptr());
  }
  if (const std::size_t bytes = op_.args.workspace_size(args_.data()); bytes > 0) {
    static const Argument bare{.name = "workspace",
                               .kind = ArgumentKind::tensor,
                               .dtypes = {},
                               .shape = {},
                               .in_place_of = {},
                               .doc = {},
                               .member = nullptr};
    // Counted in the elements that fla has.
    workspace_ = empty(py::handle(first_), py::make_tuple((bytes + 3) / 4), name_in_python(DType::i32));
    const TensorView view = arrays_.view(bare, workspace_.ptr(), kind_, stream_);
    op_.args.set_workspace(args_.data(), {view.data(), bytes});
  }
}

void Call::count_writes_in_torch() const {
  const TorchApi* torch = torch_api();
  if (torch == nullptr) return;
  for (std::size_t row = 0; row < op_.table.size(); ++row) {
    if (op_.table[row].kind == ArgumentKind::output && is_given(row) && torch->is_plain(values_[row]))
      torch->count_write(values_[row]);
  }
}

py::tuple Call::results(std::span<Tensor> tensors) const {
  py::tuple all(op_.results.size());
  for (std::size_t i = 0; i < op_.results.size(); ++i) {
    const std::size_t output = op_.results[i].output;
    if (is_given(output)) {
      all[i] = py::handle(values_[output]);
    } else if (provided_[i]) {
      all[i] = provided_[i];
    } else if (tensors[i].defined()) {
      all[i] = to_array(kind_, first_, std::move(tensors[i]), stream_.known(), arrays_.numpy_bf16());
    } else {
      all[i] = py::none();
    }
  }
  return all;
}

void Call::wait_where_needed() const {
  if (arrays_.must_wait()) synchronize(device_, stream_.known());
}

}  // namespace

py::object call(const OpFunction& function, PyObject* const* values, bool directly) {
  Call made(*function.op, values);
  if (!directly && made.is_for_torchs_dispatcher()) {
    py::tuple all(function.op->table.size() + 1);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = py::handle(values[i]);
    return py::reinterpret_borrow<py::object>(torch_api()->dispatched)(function.name, all);
  }
  made.take_arguments();
  made.take_outputs_from_framework();
  if (!directly) made.count_writes_in_torch();
  const Scope scope;
  std::array<Tensor, kMaxResults> tensors;
  {
    const ReleasedGil released;
    const Scope::Policies policies(scope);
    function.run(made.args(), tensors);
    made.wait_where_needed();
  }
  return made.results(tensors);
}

double repeat_call(const OpFunction& function, PyObject* const* values, std::int64_t count) {
  Call made(*function.op, values);
  made.take_arguments();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    std::array<Tensor, kMaxResults> tensors;
    function.run(made.args(), tensors);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Explanation explain_call(const OpFunction& function, PyObject* const* values) {
  Call made(*function.op, values);
  made.take_arguments();
  const Scope scope;
  const ReleasedGil released;
  const Scope::Policies policies(scope);
  return function.op->explain(function.op->name, function.name, made.args());
}

}  // namespace fla::python
