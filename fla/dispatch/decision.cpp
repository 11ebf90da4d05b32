#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "fla/dispatch/condition.h"
#include "fla/dispatch/facts.h"
#include "fla/dispatch/ranges.h"
#include "fla/dispatch/suggest.h"

namespace fla::dispatch {
namespace {

using Kind = ConditionNode::Kind;
using Relation = ConditionNode::Relation;
using Constant = ConditionConstant;

constexpr std::size_t kMostAlternatives = 64;  // of one condition
constexpr std::size_t kMostPairs = 1024;       // while one is worked out
constexpr std::size_t kMostSteps = 1 << 22;    // a range that is looked at is one

/// What holds when every fact lies in its ranges; a fact that is not named may be anything.
struct Alternative {
  struct Limit {
    Fact fact;
    Ranges ranges;
  };
  std::vector<Limit> limits;

  const Ranges* find(const Fact& fact) const {
    const auto found = std::ranges::find(limits, fact, &Limit::fact);
    return found == limits.end() ? nullptr : &found->ranges;
  }

  /// How much there is to look at.
  std::size_t size() const {
    std::size_t ranges = 1;
    for (const Limit& limit : limits) ranges += limit.ranges.ranges().size();
    return ranges;
  }
};

using Alternatives = std::vector<Alternative>;

/// Both at once; nothing when they exclude each other.
std::optional<Alternative> both(const Alternative& a, const Alternative& b) {
  Alternative result = a;
  for (const Alternative::Limit& limit : b.limits) {
    const auto found = std::ranges::find(result.limits, limit.fact, &Alternative::Limit::fact);
    if (found == result.limits.end()) {
      result.limits.push_back(limit);
    } else {
      found->ranges = found->ranges.intersection(limit.ranges);
      if (found->ranges.empty()) return std::nullopt;
    }
  }
  return result;
}

/// One alternative for two that differ in the ranges of at most one fact.
std::optional<Alternative> merged(const Alternative& a, const Alternative& b) {
  if (a.limits.size() != b.limits.size()) return std::nullopt;
  const Alternative::Limit* differing = nullptr;
  for (const Alternative::Limit& limit : a.limits) {
    const Ranges* other = b.find(limit.fact);
    if (other == nullptr) return std::nullopt;
    if (*other == limit.ranges) continue;
    if (differing != nullptr) return std::nullopt;
    differing = &limit;
  }
  if (differing == nullptr) return a;
  Alternative result = a;
  Ranges& ranges = std::ranges::find(result.limits, differing->fact, &Alternative::Limit::fact)->ranges;
  ranges = ranges.union_with(*b.find(differing->fact));
  if (ranges.complement().empty()) {
    std::erase_if(result.limits, [&](const auto& limit) { return limit.fact == differing->fact; });
  }
  return result;
}

/// Works out what a condition says about the facts of a table.
class Resolver {
 public:
  explicit Resolver(ArgumentTable table) : table_(table), facts_(facts_of(table)) {}

  Alternatives resolve(const Condition& condition) const {
    steps_ = 0;
    return resolve(condition.root(), false);
  }

 private:
  Alternatives resolve(const ConditionNode& node, bool negated) const {
    switch (node.kind) {
      case Kind::negation: return resolve(*node.children.front(), !negated);
      case Kind::comparison: return comparison(node, negated);
      case Kind::all: return negated ? any(node, true) : all(node, false);
      case Kind::any: return negated ? all(node, true) : any(node, false);
    }
    return {};
  }

  static void hold_to_limit(const ConditionNode& node, bool over) {
    if (!over) return;
    throw ConditionError(node.offset, "more than " + std::to_string(kMostAlternatives) +
                                          " alternatives once every 'or' is worked out; write several rules");
  }

  /// What joining many alternatives costs is bounded: it can grow with the square of their number.
  void spend(const ConditionNode& node, std::size_t steps) const {
    steps_ += steps;
    if (steps_ <= kMostSteps) return;
    throw ConditionError(node.offset,
                         "takes too long to work out; write 'x in [a, b]' for many values of one name, or "
                         "several rules");
  }

  void add(const ConditionNode& node, Alternatives& all, Alternative next) const {
    for (auto each = all.begin(); each != all.end(); ++each) {
      spend(node, each->size() + next.size());
      if (auto one = merged(*each, next)) {
        all.erase(each);
        return add(node, all, std::move(*one));
      }
    }
    all.push_back(std::move(next));
  }

  /// The children of an `and` or an `or`. Comparisons are joined at once, one limit a fact: a long list of
  /// them costs no more than its length.
  struct Parts {
    Alternative comparisons;  ///< as many as there are facts
    std::vector<Alternatives> others;
  };
  Parts parts_of(const ConditionNode& node, bool negated, Kind join) const {
    struct Group {
      Fact fact;
      std::vector<Ranges::Range> ranges;
    };
    std::vector<Group> groups;
    Parts parts;
    for (const auto& child : node.children) {
      const ConditionNode* inner = child.get();
      bool inverted = negated;
      for (; inner->kind == Kind::negation; inner = inner->children.front().get()) inverted = !inverted;
      if (inner->kind != Kind::comparison) {
        parts.others.push_back(resolve(*inner, inverted));
        continue;
      }
      auto [fact, ranges] = limit_of(*inner);
      // What all of them hold is what none of them leaves out.
      if (inverted != (join == Kind::all)) ranges = ranges.complement();
      auto group = std::ranges::find(groups, fact, &Group::fact);
      if (group == groups.end()) group = groups.insert(groups.end(), {fact, {}});
      group->ranges.insert(group->ranges.end(), ranges.ranges().begin(), ranges.ranges().end());
    }
    for (Group& group : groups) {
      const Ranges joined = Ranges::of(std::move(group.ranges));
      parts.comparisons.limits.push_back({group.fact, join == Kind::all ? joined.complement() : joined});
    }
    return parts;
  }

  Alternatives any(const ConditionNode& node, bool negated) const {
    Parts parts = parts_of(node, negated, Kind::any);
    Alternatives result;
    for (Alternative::Limit& limit : parts.comparisons.limits) {
      for (Alternative& each : alternatives_of(std::move(limit))) add(node, result, std::move(each));
    }
    hold_to_limit(node, result.size() > kMostAlternatives);
    for (Alternatives& other : parts.others) {
      for (Alternative& each : other) add(node, result, std::move(each));
      hold_to_limit(node, result.size() > kMostAlternatives);
    }
    return result;
  }

  Alternatives all(const ConditionNode& node, bool negated) const {
    Parts parts = parts_of(node, negated, Kind::all);
    Alternatives result{{}};
    const auto restrict_to = [&](const Alternatives& next) {
      hold_to_limit(node, result.size() * next.size() > kMostPairs);
      Alternatives products;
      for (const Alternative& a : result) {
        for (const Alternative& b : next) {
          spend(node, a.size() + b.size());
          if (auto one = both(a, b)) add(node, products, std::move(*one));
        }
      }
      hold_to_limit(node, products.size() > kMostAlternatives);
      result = std::move(products);
    };
    for (Alternative::Limit& limit : parts.comparisons.limits) restrict_to(alternatives_of(std::move(limit)));
    for (const Alternatives& other : parts.others) restrict_to(other);
    return result;
  }

  Alternatives comparison(const ConditionNode& node, bool negated) const {
    Alternative::Limit limit = limit_of(node);
    if (negated) limit.ranges = limit.ranges.complement();
    return alternatives_of(std::move(limit));
  }

  static Alternatives alternatives_of(Alternative::Limit limit) {
    if (limit.ranges.empty()) return {};
    if (limit.ranges.complement().empty()) return {{}};
    Alternatives one(1);
    one.front().limits.push_back(std::move(limit));
    return one;
  }

  Alternative::Limit limit_of(const ConditionNode& node) const {
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
    const bool orderable = named.type == FactType::size || named.type == FactType::number;
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
  mutable std::size_t steps_ = 0;  // for one condition
};

}  // namespace

void check_condition(const Condition& condition, ArgumentTable table) {
  (void)Resolver(table).resolve(condition);
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

/// One fact: where it lies, the bounds that part its values, and a row for each part. Of a fact of few values
/// there are no bounds and a row for each value, the absent one first.
struct Decision::Step {
  Reading reading = Reading::other;
  std::uint32_t offset = 0, other_offset = 0;
  std::int16_t dim = 0, plus = 0, other_dim = 0, other_plus = 0;
  std::uint32_t bounds = 0, bound_count = 0;
  std::uint32_t starts = 0;  ///< for each number of bits, how many bounds are at most the least such number
  std::uint32_t rows = 0, last_row = 0;
  std::uint32_t fact = 0;  ///< of those that are read in another way

  explicit Step(const Fact& its) {
    const Argument* first = its.argument != nullptr ? its.argument : its.source.argument;
    const Argument* second = its.other.argument != nullptr ? its.other.argument : first;
    if (first == nullptr) return;
    const auto here = offset_of(*first), there = offset_of(*second);
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
      default: break;
    }
  }
};

Decision::Decision(std::span<const Condition* const> rules, ArgumentTable table) : table_(table) {
  const Resolver resolver(table);
  Alternatives all;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Alternatives alternatives;
    if (rules[i] == nullptr) {
      alternatives.emplace_back();
    } else {
      try {
        alternatives = resolver.resolve(*rules[i]);
      } catch (const ConditionError&) {
        continue;  // it is about what another function has
      }
    }
    bool always = false;
    for (Alternative& each : alternatives) {
      always = always || each.limits.empty();
      all.push_back(std::move(each));
      rule_of_.push_back(static_cast<int>(i));
    }
    if (always) break;  // nobody asks those behind it
  }
  words_ = (all.size() + 63) / 64;

  std::vector<Fact> facts;
  for (const Alternative& each : all) {
    for (const Alternative::Limit& limit : each.limits) {
      if (std::ranges::find(facts, limit.fact) == facts.end()) facts.push_back(limit.fact);
    }
  }
  for (const Fact& fact : facts) {
    std::vector<std::int64_t> firsts{Ranges::kLeast};  // of the intervals: one value stands for all of each
    if (const int count = fact.few_values(); count > 0) {
      for (int value = 0; value < count; ++value) firsts.push_back(value);
    } else {
      for (const Alternative& each : all) {
        const Ranges* ranges = each.find(fact);
        if (ranges == nullptr) continue;
        for (const Ranges::Range& range : ranges->ranges()) {
          firsts.push_back(range.first);
          if (range.last != Ranges::kMost) firsts.push_back(range.last + 1);
        }
      }
      std::ranges::sort(firsts);
      firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
    }
    Step step(fact);
    step.rows = static_cast<std::uint32_t>(rows_.size());
    step.last_row = static_cast<std::uint32_t>(firsts.size() - 1);
    // Which alternatives begin or cease to stand at which interval; the rows follow from one to the next.
    std::vector<std::pair<std::size_t, std::size_t>> changes;
    std::vector<std::uint64_t> row(words_);
    const auto flip = [&row](std::size_t i) { row[i / 64] ^= std::uint64_t{1} << (i % 64); };
    const auto interval_of = [&firsts](std::int64_t value) {
      return static_cast<std::size_t>(std::ranges::lower_bound(firsts, value) - firsts.begin());
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Ranges* ranges = all[i].find(fact);
      if (ranges == nullptr) {
        flip(i);
        continue;
      }
      for (const Ranges::Range& range : ranges->ranges()) {
        changes.emplace_back(interval_of(range.first), i);
        if (range.last != Ranges::kMost) changes.emplace_back(interval_of(range.last + 1), i);
      }
    }
    std::ranges::sort(changes);
    auto change = changes.begin();
    for (std::size_t interval = 0; interval < firsts.size(); ++interval) {
      for (; change != changes.end() && change->first == interval; ++change) flip(change->second);
      rows_.insert(rows_.end(), row.begin(), row.end());
    }
    if (fact.few_values() == 0) {
      step.bounds = static_cast<std::uint32_t>(bounds_.size());
      step.bound_count = step.last_row;
      bounds_.insert(bounds_.end(), firsts.begin() + 1, firsts.end());
      bounds_.push_back(Ranges::kMost);
      step.starts = static_cast<std::uint32_t>(starts_.size());
      starts_.push_back(0);  // of what is less than 0
      for (int bits = 0; bits < 64; ++bits) {
        const std::int64_t least = bits == 0 ? 0 : std::int64_t{1} << (bits - 1);
        const auto start =
            std::ranges::upper_bound(firsts.begin() + 1, firsts.end(), least) - firsts.begin() - 1;
        starts_.push_back(static_cast<std::uint32_t>(start));
      }
    }
    if (step.reading == Reading::other) {
      step.fact = static_cast<std::uint32_t>(others_.size());
      others_.push_back(fact);
    }
    steps_.push_back(step);
  }
  std::ranges::stable_sort(steps_, {}, &Step::reading);
  for (const Step& step : steps_) {
    for (auto reading = static_cast<std::size_t>(step.reading); reading < kReadings; ++reading)
      ++ends_[reading];
  }
}

Decision::~Decision() = default;

/// Which part of its values a value lies in: how many bounds are at most as large. For sizes the number of
/// bits mostly says it: bounds are powers of two, or far apart.
inline std::size_t Decision::part_of(const Step& step, std::int64_t value) const noexcept {
  const std::int64_t* bounds = bounds_.data() + step.bounds;
  const auto bits =
      value < 0 ? 0 : 1 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(value)));
  const std::size_t part = starts_[step.starts + bits];
  if (bounds[part] > value) [[likely]]  // there is one more than bounds, which is greater than they are
    return part;
  return static_cast<std::size_t>(std::upper_bound(bounds + part, bounds + step.bound_count, value) - bounds);
}

/// Gives the row of every fact to `take`. One loop for each way to read one, so that nothing has to be
/// guessed but how often each runs, and that is the same for all calls.
template <class Take>
inline void Decision::for_each_row(std::size_t words, const void* args, Take&& take) const noexcept {
  const auto* begin = static_cast<const std::byte*>(args);
  const auto tensor = [begin](std::uint32_t offset) -> const TensorView& {
    return *reinterpret_cast<const TensorView*>(begin + offset);
  };
  const auto here = [&](const Step& s) {
    const TensorView& from = tensor(s.offset);
    return from.defined() ? from.size(s.dim) - s.plus : kAbsent;
  };
  const auto there = [&](const Step& s) {
    const TensorView& from = tensor(s.other_offset);
    return from.defined() ? from.size(s.other_dim) - s.other_plus : kAbsent;
  };
  std::size_t at = 0;
  const auto each = [&](Reading reading, auto&& part) {
    for (; at < ends_[static_cast<std::size_t>(reading)]; ++at) {
      const Step& step = steps_[at];
      take(step.rows + static_cast<std::size_t>(part(step)) * words);
    }
  };
  const auto row_of_few = [](const Step& s, bool is_there, auto value) {
    return is_there ? std::min<std::size_t>(static_cast<std::size_t>(value) + 1, s.last_row) : 0;
  };
  each(Reading::flag,
       [&](const Step& s) { return *reinterpret_cast<const bool*>(begin + s.offset) ? 2u : 1u; });
  each(Reading::defined, [&](const Step& s) { return tensor(s.offset).defined() ? 2u : 1u; });
  each(Reading::dtype,
       [&](const Step& s) { return row_of_few(s, tensor(s.offset).defined(), tensor(s.offset).dtype()); });
  each(Reading::device, [&](const Step& s) {
    return row_of_few(s, tensor(s.offset).defined(), tensor(s.offset).device().type);
  });
  each(Reading::size, [&](const Step& s) { return part_of(s, here(s)); });
  each(Reading::size_or_else, [&](const Step& s) {
    const std::int64_t size = here(s);
    return part_of(s, size != kAbsent ? size : there(s));
  });
  each(Reading::difference, [&](const Step& s) {
    const std::int64_t a = here(s), b = there(s);
    return part_of(s, a == kAbsent || b == kAbsent ? kAbsent : a - b);
  });
  each(Reading::number, [&](const Step& s) {
    const auto& number = *reinterpret_cast<const std::optional<float>*>(begin + s.offset);
    return part_of(s, number ? place_of(*number) : kAbsent);
  });
  each(Reading::other, [&](const Step& s) {
    const std::int64_t value = others_[s.fact].value(table_, args);
    return s.bound_count > 0 ? part_of(s, value) : row_of_few(s, value != kAbsent, value);
  });
}

int Decision::first(const void* args) const noexcept {
  if (words_ == 1) {
    std::uint64_t standing = ~std::uint64_t{0} >> (64 - rule_of_.size());
    for_each_row(1, args, [&](std::size_t row) { standing &= rows_[row]; });
    return standing == 0 ? -1 : rule_of_[static_cast<std::size_t>(std::countr_zero(standing))];
  }
  constexpr std::size_t kTogether = 8;  // words for which a fact is looked up once
  for (std::size_t begin = 0; begin < words_; begin += kTogether) {
    const std::size_t end = std::min(begin + kTogether, words_);
    std::array<std::uint64_t, kTogether> standing;
    standing.fill(~std::uint64_t{0});
    for_each_row(words_, args, [&](std::size_t row) {
      for (std::size_t word = begin; word < end; ++word) standing[word - begin] &= rows_[row + word];
    });
    for (std::size_t word = begin; word < end; ++word) {
      const std::uint64_t left = standing[word - begin];
      const std::size_t alternative = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
      if (left != 0 && alternative < rule_of_.size()) return rule_of_[alternative];
    }
  }
  return -1;
}

}  // namespace fla::dispatch
