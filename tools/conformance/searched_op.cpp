#include "tools/conformance/searched_op.h"

#include <algorithm>
#include <numeric>

#include "tools/cases/accuracy.h"
#include "tools/conformance/child.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {
namespace {

/// Where packed sequences begin: an empty one, one of a token, and two others.
std::vector<std::int64_t> starts(std::int64_t sequences, std::int64_t T) {
  std::vector<std::int64_t> all{0, 0};
  while (std::ssize(all) < sequences) all.push_back(std::min(T, T / 3 + std::ssize(all) - 2));
  all.push_back(T);
  return all;
}

/// So many slots of a pool, in no order, from one of them on.
std::vector<std::int64_t> some_slots(std::int64_t pool, std::int64_t from, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(pool));
  std::iota(all.begin(), all.end(), 0);
  cases::Random random(17);
  for (std::int64_t i = pool - 1; i > 0; --i)
    std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(random.between(0, i))]);
  all.erase(all.begin(), all.begin() + from);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

/// What an index holds for every sequence. Slots of the first index are read, of a later one written; no slot
/// is both. Every third sequence is skipped, every fourth leaves no state. The last of three is neither:
/// entries of another stride are poison, which is negative. Of checkpoints every other sequence leaves out
/// the last.
std::vector<std::int64_t> slots(const Argument& argument, const AxisSizes& sizes, bool first) {
  const std::int64_t N = sizes[Axis::N], C = sizes[Axis::C], P = sizes[Axis::P];
  const auto negative = [](std::size_t i) { return -1 - static_cast<std::int64_t>(i); };
  if (argument.name == "num_accepted_tokens") {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(N));
    for (std::size_t n = 0; n < counts.size(); ++n) counts[n] = static_cast<std::int64_t>(n % 3);
    return counts;
  }
  if (argument.shape.first.rank == 2) {
    std::vector<std::int64_t> all = some_slots(P, 2 * N, N * C);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % static_cast<std::size_t>(2 * C) == static_cast<std::size_t>(2 * C - 1)) all[i] = negative(i);
    }
    return all;
  }
  std::vector<std::int64_t> all = some_slots(P, first ? 0 : N, N);
  for (std::size_t n = 0; n < all.size(); ++n) {
    if (first ? n % 3 == 1 : n % 4 == 3) all[n] = negative(n);
  }
  return all;
}

Layout layout_of(Choice::Lies lies, int rank) {
  if (lies == Choice::Lies::padded) return Layout::padded(rank);
  return lies == Choice::Lies::anyhow ? Layout::turned(rank) : Layout{};
}

}  // namespace

Policy only(std::string_view op, std::string_view backend) {
  if (backend == "original") return {.disable_dispatch = true};
  return {.disable_dispatch = false,
          .enable = {{std::string(backend), true}},
          .order = {{std::string(op), {std::string(backend)}}},
          .require = {{std::string(op), std::string(backend)}}};
}

Answer SearchedOp::ask(const Target& target, const void* args) const {
  if (target.backend == "original") return {"selected", "", ""};
  const ScopedPolicy policy(only(op().name, target.backend));
  for (const Explanation::Row& row : op().explain(target.function, args).rows) {
    if (row.name == target.backend) return {row.state, row.reason, row.place};
  }
  return {"absent", "", ""};
}

std::vector<cases::NamedTensor> SearchedOp::run(const Target& target, const void* args) const {
  note_progress(target.function);
  const ScopedPolicy policy(only(op().name, target.backend));
  return op().run(target.function, args);
}

struct MadeCall::Memory {
  const Argument* argument;
  LaidOut tensor;
  bool written;
};

MadeCall::MadeCall(const SearchedOp& op, const CallForm& form)
    : op_(&op),
      form_(form),
      sizes_(form.sizes()),
      args_(op.op().make_args()),
      memory_(std::make_shared<std::vector<Memory>>()) {
  for (const Argument& argument : form.table()) set_option(argument, form[argument.name], args_.get());
  for (const bool outputs : {false, true}) {
    for (const Argument& argument : form.table()) {
      const bool there = argument.is_tensor() && form[argument.name].given;
      if (there && (argument.kind == ArgumentKind::output) == outputs) place(argument);
    }
  }
}

void MadeCall::place(const Argument& argument) {
  const Choice& choice = form_[argument.name];
  if (choice.in_place) {
    const Argument& other = *find_argument(form_.table(), argument.in_place_of);
    tensor(argument) = tensor(other);
    for (Memory& memory : *memory_) memory.written |= memory.argument == &other;
    return;
  }
  const ShapeRule& rule =
      choice.second_shape ? argument.shape.second : rule_in_force(form_.table(), argument, args_.get());
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rule.rank; ++i) shape.push_back(rule.dims[static_cast<std::size_t>(i)].in(sizes_));
  LaidOut placed(shape, choice.dtype, layout_of(choice.lies, rule.rank));
  tensor(argument) = placed.view();
  const bool written = argument.kind == ArgumentKind::output;
  memory_->push_back({&argument, std::move(placed), written});
  // An index is read by whoever checks the call.
  if (argument.kind == ArgumentKind::index) fill(argument, 0);
}

MadeCall::Memory& MadeCall::memory_of(const Argument& argument) {
  return *std::ranges::find(*memory_, &argument, &Memory::argument);
}

std::vector<std::int64_t> MadeCall::sequence_starts() const {
  if (form_.is_packed()) return starts(sizes_[Axis::N], sizes_[Axis::T]);
  std::vector<std::int64_t> all(static_cast<std::size_t>(sizes_[Axis::N]), 0);
  all.push_back(sizes_[Axis::T]);
  return all;
}

void MadeCall::scale(const Argument& argument, double factor) {
  LaidOut& tensor = memory_of(argument).tensor;
  for_each_offset(tensor, [&](std::int64_t offset) {
    cases::store(tensor, offset, factor * cases::element(tensor, offset));
  });
  tensor.remember();
}

void MadeCall::set(const Argument& argument, std::int64_t offset, double value) {
  LaidOut& tensor = memory_of(argument).tensor;
  cases::store(tensor, offset, value);
  tensor.remember();
}

void MadeCall::fill(std::uint64_t seed) {
  for (const Memory& memory : *memory_) {
    if (memory.argument->kind == ArgumentKind::tensor) fill(*memory.argument, seed);
  }
}

void MadeCall::fill(const Argument& argument, std::uint64_t seed) {
  LaidOut& tensor = memory_of(argument).tensor;
  const TensorView& view = tensor;
  if (argument.kind == ArgumentKind::index) {
    const bool first = std::ranges::none_of(
        *memory_, [&](const Memory& one) { return one.argument->names_slots() && one.argument < &argument; });
    const std::vector<std::int64_t> entries =
        argument.names_slots() ? slots(argument, sizes_, first) : starts(sizes_[Axis::N], sizes_[Axis::T]);
    auto entry = entries.begin();
    for_each_offset(view,
                    [&](std::int64_t offset) { cases::store(view, offset, static_cast<double>(*entry++)); });
  } else {
    cases::Random random(seed * 64 + static_cast<std::uint64_t>(&argument - form_.table().data()));
    op_->fill(argument, view, args_.get(), random);
  }
  tensor.remember();
}

std::string MadeCall::damage(const std::vector<cases::NamedTensor>& results) const {
  std::string text;
  for (const Memory& memory : *memory_) {
    const std::string name(memory.argument->name);
    if (memory.written && !memory.tensor.intact_around()) text += "wrote around " + name + "; ";
    if (!memory.written && !memory.tensor.intact()) text += "wrote into " + name + "; ";
  }
  std::size_t output = 0;  // results stand in the order of the outputs
  for (const Argument& argument : form_.table()) {
    if (!is_result(form_.table(), argument)) continue;
    const std::string_view name = op_->op().results[output++];
    const TensorView& given = argument.tensor(args_.get());
    const auto result = std::ranges::find(results, name, &cases::NamedTensor::name);
    if (given.defined() && (result == results.end() || result->tensor.data() != given.data()))
      text += "did not write into " + std::string(argument.name) + "; ";
  }
  return text;
}

}  // namespace fla::conformance
