#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "fla/core/suggest.h"
#include "fla/dispatch/rules/condition.h"
#include "fla/dispatch/rules/facts.h"
#include "fla/dispatch/rules/ranges.h"

namespace fla::dispatch {
namespace {

using Kind = ConditionNode::Kind;
using Relation = ConditionNode::Relation;
using Constant = ConditionConstant;

constexpr std::size_t kMostComparisons = 256;  // of one condition, those of one fact joined

/// A comparison: the fact lies in one of the ranges.
struct Limit {
  Fact fact;
  Ranges ranges;
};

/// Reads comparisons by a table of arguments.
class Resolver {
 public:
  explicit Resolver(ArgumentTable table) : table_(table), facts_(facts_of(table)) {}

  Limit limit_of(const ConditionNode& node) const {
    const NamedFact& named = find(node.name, node.offset);
    if (node.relation == Relation::bare) {
      if (!named.alone) {
        throw ConditionError(
            node.offset, named.name + " cannot stand alone: expected a comparison such as " + example(named));
      }
      return {*named.alone, Ranges(1, 1)};
    }
    if (!node.other.empty()) return {difference(node, named), in_relation(node.relation, 0)};
    const bool ordered = node.relation != Relation::equal && node.relation != Relation::unequal &&
                         node.relation != Relation::among;
    const bool orderable =
        named.type == FactType::size || named.type == FactType::number || named.type == FactType::integer;
    if (ordered && !orderable) {
      throw ConditionError(node.relation_offset, named.name + " can be compared with == or !=, not with '" +
                                                     node.relation_written + "'");
    }
    std::vector<Ranges::Range> ranges;
    for (const Constant& constant : node.constants) {
      const Ranges its = in_relation(node.relation, value_of(named, constant));
      ranges.insert(ranges.end(), its.ranges().begin(), its.ranges().end());
    }
    return {named.fact, Ranges::of(std::move(ranges))};
  }

  Fact difference(const ConditionNode& node, const NamedFact& named) const {
    const NamedFact& other = find(node.other, node.other_offset);
    if (named.type != FactType::size || other.type != FactType::size) {
      throw ConditionError(node.other_offset, "expected a constant to compare " + named.name + " with, got " +
                                                  other.name +
                                                  "; only sizes can be compared with each other");
    }
    return difference_of(named.fact, other.fact);
  }

  const NamedFact& find(const std::string& name, std::size_t offset) const {
    const auto found = std::ranges::find(facts_, name, &NamedFact::name);
    if (found != facts_.end()) return *found;
    if (const Argument* argument = find_argument(table_, name);
        argument && argument->need == Need::required) {
      throw ConditionError(offset, name + " is part of every call; there is nothing to ask about it");
    }
    std::vector<std::string> known;
    for (const NamedFact& each : facts_) known.push_back(each.name);
    throw ConditionError(offset, "unknown name '" + name + "'" + suggestion(name, known));
  }

  static std::string example(const NamedFact& named) {
    switch (named.type) {
      case FactType::dtype: return named.name + " == 'bf16'";
      case FactType::device: return named.name + " == 'cuda'";
      default: return named.name + " < 64";
    }
  }

  static std::int64_t value_of(const NamedFact& named, const Constant& constant) {
    const auto refuse = [&](const std::string& expected) -> ConditionError {
      return {constant.offset, named.name + " is " + expected + ", got " + constant.written};
    };
    const bool number = constant.kind == Constant::Kind::whole || constant.kind == Constant::Kind::real;
    switch (named.type) {
      case FactType::size:
      case FactType::integer:
        if (constant.kind != Constant::Kind::whole) throw refuse("a whole number");
        return constant.whole;
      case FactType::number: {
        if (!number) throw refuse("a number");
        const auto nearest = static_cast<float>(constant.real);
        if (!std::isfinite(nearest)) throw refuse("a 32-bit float");
        return place_of(nearest);
      }
      case FactType::truth:
        if (constant.kind != Constant::Kind::truth) throw refuse("true or false");
        return constant.truth ? 1 : 0;
      case FactType::dtype: {
        constexpr std::array kAll{DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64};
        std::vector<std::string> known;
        for (const DType dtype : kAll) known.emplace_back(name_of(dtype));
        return named_value(named, constant, known, [](const std::string& name) {
          return static_cast<std::int64_t>(*dtype_from_name(name));
        });
      }
      case FactType::device:
        return named_value(named, constant, {"cpu", "cuda"}, [](const std::string& name) {
          return static_cast<std::int64_t>(device_from_name(name)->type);
        });
    }
    return kAbsent;
  }

  template <class ValueOf>
  static std::int64_t named_value(const NamedFact& named, const Constant& constant,
                                  const std::vector<std::string>& known, ValueOf&& value) {
    if (constant.kind != Constant::Kind::text) {
      throw ConditionError(constant.offset, named.name + " is a name such as '" + known.front() + "', got " +
                                                constant.written);
    }
    if (std::ranges::find(known, constant.text) == known.end()) {
      throw ConditionError(constant.offset, "there is no " + named.name + " '" + constant.text + "'" +
                                                suggestion(constant.text, known));
    }
    return value(constant.text);
  }

  /// What is left out is kAbsent, below every value that compares.
  static Ranges in_relation(Relation relation, std::int64_t value) {
    constexpr std::int64_t lowest = kAbsent + 1, highest = Ranges::kMost;
    switch (relation) {
      case Relation::less: return value <= lowest ? Ranges() : Ranges(lowest, value - 1);
      case Relation::at_most: return {lowest, value};
      case Relation::greater:
        return value == highest ? Ranges() : Ranges(std::max(value + 1, lowest), highest);
      case Relation::at_least: return {std::max(value, lowest), highest};
      case Relation::unequal: return Ranges(std::max(value, lowest), value).complement();
      default: return {std::max(value, lowest), value};
    }
  }

  ArgumentTable table_;
  std::vector<NamedFact> facts_;
};

/// Compiles a condition into comparisons, the last one first. add(limit, yes, no) appends a comparison after
/// which the walk continues at `yes` or `no`, and returns its index.
template <class Add>
class Compiler {
 public:
  Compiler(const Resolver& resolver, Add add) : resolver_(resolver), add_(std::move(add)) {}

  /// Returns where the walk starts. It ends at `yes` when the condition holds, at `no` otherwise.
  int compile(const Condition& condition, int yes, int no) {
    begin_ = condition.root().offset;
    left_ = kMostComparisons;
    return compile(condition.root(), yes, no);
  }

 private:
  int compile(const ConditionNode& node, int yes, int no) {
    switch (node.kind) {
      case Kind::negation: return compile(*node.children.front(), no, yes);
      case Kind::comparison: return place(resolver_.limit_of(node), yes, no);
      case Kind::all: return compile_all(node, yes, no, false);
      case Kind::any: return compile_all(node, no, yes, true);
    }
    return no;
  }

  /// All children, or with `inverted` all their opposites: `a or b` is `not (not a and not b)`. Comparisons
  /// of one fact are merged, so that a long list of them costs a call as much as one.
  int compile_all(const ConditionNode& node, int yes, int no, bool inverted) {
    struct Group {
      Fact fact;
      std::vector<Ranges::Range> left_out;
    };
    std::vector<Group> groups;
    int next = yes;
    for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
      const ConditionNode* inner = child->get();
      bool opposite = inverted;
      for (; inner->kind == Kind::negation; inner = inner->children.front().get()) opposite = !opposite;
      if (inner->kind != Kind::comparison) {
        next = opposite ? compile(*inner, no, next) : compile(*inner, next, no);
        continue;
      }
      Limit limit = resolver_.limit_of(*inner);
      const Ranges left_out = opposite ? limit.ranges : limit.ranges.complement();
      auto group = std::ranges::find(groups, limit.fact, &Group::fact);
      if (group == groups.end()) group = groups.insert(groups.end(), {limit.fact, {}});
      group->left_out.insert(group->left_out.end(), left_out.ranges().begin(), left_out.ranges().end());
    }
    for (Group& group : groups) {
      next = place({group.fact, Ranges::of(std::move(group.left_out)).complement()}, next, no);
    }
    return next;
  }

  int place(const Limit& limit, int yes, int no) {
    if (limit.ranges.empty()) return no;
    if (limit.ranges.complement().empty()) return yes;
    if (left_-- == 0) {
      throw ConditionError(begin_, "more than " + std::to_string(kMostComparisons) +
                                       " comparisons; write 'x in [a, b]' for many values of one name, "
                                       "or several rules");
    }
    return add_(limit, yes, no);
  }

  const Resolver& resolver_;
  Add add_;
  std::size_t begin_ = 0, left_ = 0;
};

}  // namespace

void check_condition(const Condition& condition, ArgumentTable table) {
  const Resolver resolver(table);
  (void)Compiler(resolver, [](const Limit&, int, int) { return 0; }).compile(condition, 0, 0);
}

namespace {

/// How a fact is read while a call waits: the common ones straight from where they lie.
enum class Reading : std::uint8_t {
  flag,
  defined,
  dtype,
  device,
  size,
  size_or_else,
  difference,
  number,
  integer,
  other
};

/// How far from the beginning of the arguments an argument lies. Nothing when its table's function does more
/// than to add a number, which shows when it is asked about memory that is all zeros.
std::optional<std::uint32_t> offset_of(const Argument& argument) {
  constexpr std::size_t kLarge = std::size_t{1} << 16;
  alignas(64) static const std::array<std::byte, kLarge> zeros{};
  const auto begin = reinterpret_cast<std::uintptr_t>(zeros.data());
  const auto place = reinterpret_cast<std::uintptr_t>(argument.member(zeros.data()));
  if (place < begin || place - begin >= kLarge) return std::nullopt;
  return static_cast<std::uint32_t>(place - begin);
}

}  // namespace

/// A fact that some rule asks for, and where it lies.
struct Decision::Source {
  Fact fact;
  Reading reading = Reading::other;
  std::int16_t dim = 0, plus = 0, other_dim = 0, other_plus = 0;
  std::uint32_t offset = 0, other_offset = 0;

  explicit Source(const Fact& its) : fact(its) {
    const Argument* from = its.argument != nullptr ? its.argument : its.source.argument;
    const Argument* to = its.other.argument != nullptr ? its.other.argument : from;
    if (from == nullptr) return;
    const auto here = offset_of(*from), there = offset_of(*to);
    if (!here || !there) return;
    offset = *here;
    other_offset = *there;
    dim = its.source.dim;
    plus = its.source.plus;
    other_dim = its.other.dim;
    other_plus = its.other.plus;
    switch (its.kind) {
      case Fact::Kind::flag: reading = Reading::flag; break;
      case Fact::Kind::is_defined: reading = Reading::defined; break;
      case Fact::Kind::dtype: reading = Reading::dtype; break;
      case Fact::Kind::device: reading = Reading::device; break;
      case Fact::Kind::size: reading = Reading::size; break;
      case Fact::Kind::size_or_else: reading = Reading::size_or_else; break;
      case Fact::Kind::difference: reading = Reading::difference; break;
      case Fact::Kind::number: reading = Reading::number; break;
      case Fact::Kind::integer: reading = Reading::integer; break;
      default: break;
    }
  }
};

/// One comparison: its fact must lie in one of the ranges.
struct Decision::Step {
  std::uint32_t source;
  int yes, no;                ///< the next step, or a result: kNoRule, kNoRule - 1 - rule
  std::uint32_t others, end;  ///< the ranges after the first, ascending, of ranges_
  std::int64_t first, last;   ///< the first range
};

Decision::Decision(std::span<const Condition* const> rules, ArgumentTable table) : table_(table) {
  const Resolver resolver(table);
  Compiler compiler(resolver, [this](const Limit& limit, int yes, int no) {
    auto source = std::ranges::find(sources_, limit.fact, &Source::fact);
    if (source == sources_.end()) source = sources_.insert(source, Source(limit.fact));
    const std::vector<Ranges::Range>& ranges = limit.ranges.ranges();
    const auto others = static_cast<std::uint32_t>(ranges_.size());
    ranges_.insert(ranges_.end(), ranges.begin() + 1, ranges.end());
    steps_.push_back({static_cast<std::uint32_t>(source - sources_.begin()), yes, no, others,
                      static_cast<std::uint32_t>(ranges_.size()), ranges.front().first, ranges.front().last});
    return static_cast<int>(steps_.size()) - 1;
  });
  for (std::size_t i = rules.size(); i-- > 0;) {
    const int holds = kNoRule - 1 - static_cast<int>(i);
    try {
      start_ = rules[i] == nullptr ? holds : compiler.compile(*rules[i], holds, start_);
    } catch (const ConditionError&) {
      // the rule is about arguments of another function
    }
  }
}

Decision::~Decision() = default;

inline std::int64_t Decision::value_of(const Source& source, const void* args) const noexcept {
  const auto* begin = static_cast<const std::byte*>(args);
  const auto tensor = [begin](std::uint32_t offset) -> const TensorView& {
    return *reinterpret_cast<const TensorView*>(begin + offset);
  };
  const auto size_at = [&](std::uint32_t offset, int dim, int plus) {
    const TensorView& from = tensor(offset);
    return from.defined() ? from.size(dim) - plus : kAbsent;
  };
  const auto here = [&] { return size_at(source.offset, source.dim, source.plus); };
  const auto there = [&] { return size_at(source.other_offset, source.other_dim, source.other_plus); };
  const auto its = [&]() -> const TensorView& { return tensor(source.offset); };
  switch (source.reading) {
    case Reading::flag: return *reinterpret_cast<const bool*>(begin + source.offset) ? 1 : 0;
    case Reading::defined: return its().defined() ? 1 : 0;
    case Reading::dtype: return its().defined() ? static_cast<std::int64_t>(its().dtype()) : kAbsent;
    case Reading::device: return its().defined() ? static_cast<std::int64_t>(its().device().type) : kAbsent;
    case Reading::size: return here();
    case Reading::size_or_else: {
      const std::int64_t size = here();
      return size != kAbsent ? size : there();
    }
    case Reading::difference: {
      const std::int64_t a = here(), b = there();
      return a == kAbsent || b == kAbsent ? kAbsent : a - b;
    }
    case Reading::number: {
      const auto& number = *reinterpret_cast<const std::optional<float>*>(begin + source.offset);
      return number ? place_of(*number) : kAbsent;
    }
    case Reading::integer:
      return place_of(*reinterpret_cast<const std::optional<std::int64_t>*>(begin + source.offset));
    case Reading::other: break;
  }
  return source.fact.value(table_, args);
}

int Decision::first(const void* args) const noexcept {
  constexpr std::uint32_t kKept = 32;  // facts that are read once, however many rules ask for them
  std::array<std::int64_t, kKept> kept;
  std::uint32_t known = 0;
  const auto value = [&](std::uint32_t source) {
    if (source >= kKept) return value_of(sources_[source], args);
    if ((known >> source & 1) == 0) {
      kept[source] = value_of(sources_[source], args);
      known |= 1u << source;
    }
    return kept[source];
  };
  int at = start_;
  while (at >= 0) {
    const Step& step = steps_[static_cast<std::size_t>(at)];
    const std::int64_t its = value(step.source);
    bool holds = its >= step.first && its <= step.last;
    if (its > step.last && step.others != step.end) {
      const auto begin = ranges_.begin() + step.others, end = ranges_.begin() + step.end;
      const auto range = std::ranges::lower_bound(begin, end, its, {}, &Ranges::Range::last);
      holds = range != end && range->first <= its;
    }
    at = holds ? step.yes : step.no;
  }
  return kNoRule - 1 - at;
}

}  // namespace fla::dispatch
