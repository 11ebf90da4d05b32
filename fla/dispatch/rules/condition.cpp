#include "fla/dispatch/rules/condition.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace fla::dispatch {
namespace {

using Kind = ConditionNode::Kind;
using Relation = ConditionNode::Relation;
using NodePointer = std::shared_ptr<const ConditionNode>;

constexpr int kDeepest = 100;

struct Token {
  enum class Kind : std::uint8_t { end, name, word, number, text, symbol };
  Kind kind = Kind::end;
  std::size_t offset = 0;
  std::string_view written{};

  bool is(std::string_view what) const {
    return (kind == Kind::symbol || kind == Kind::word) && written == what;
  }
};

// Not those of <cctype>, which ask the locale.
constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_part_of_name(char c) { return is_letter(c) || is_digit(c); }

constexpr std::array<std::string_view, 6> kWords{"and", "or", "not", "in", "true", "false"};
constexpr std::array<std::string_view, 11> kSymbols{"==", "!=", "<=", ">=", "<", ">",
                                                    "(",  ")",  "[",  "]",  ","};
/// What other languages write, and what it is called here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kForeign{
    {{"&&", "and"}, {"||", "or"}, {"!", "not"}, {"=", "=="}, {"<>", "!="}}};
constexpr std::array<std::pair<std::string_view, Relation>, 6> kRelations{{{"==", Relation::equal},
                                                                           {"!=", Relation::unequal},
                                                                           {"<", Relation::less},
                                                                           {"<=", Relation::at_most},
                                                                           {">", Relation::greater},
                                                                           {">=", Relation::at_least}}};

std::optional<Relation> relation_of(const Token& token) {
  for (const auto& [written, relation] : kRelations) {
    if (token.is(written)) return relation;
  }
  return std::nullopt;
}

/// `a < b` seen from b.
Relation mirrored(Relation relation) {
  switch (relation) {
    case Relation::less: return Relation::greater;
    case Relation::at_most: return Relation::at_least;
    case Relation::greater: return Relation::less;
    case Relation::at_least: return Relation::at_most;
    default: return relation;
  }
}

std::string described(const Token& token) {
  return token.kind == Token::Kind::end ? "the end" : std::string("'").append(token.written).append("'");
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { advance(); }

  NodePointer parse() {
    NodePointer root = any();
    if (token_.kind != Token::Kind::end) {
      fail(token_, "expected 'and', 'or' or the end, got " + described(token_));
    }
    return root;
  }

 private:
  struct Operand {
    Token token;
    std::optional<ConditionConstant> constant;  ///< none: a name
  };

  [[noreturn]] static void fail(const Token& token, const std::string& what) {
    throw ConditionError(token.offset, what);
  }

  // ---- grammar

  NodePointer any() { return joined("or", Kind::any, &Parser::all); }
  NodePointer all() { return joined("and", Kind::all, &Parser::part); }

  NodePointer joined(std::string_view word, Kind kind, NodePointer (Parser::*next)()) {
    const std::size_t offset = token_.offset;
    std::vector<NodePointer> children{(this->*next)()};
    while (token_.is(word)) {
      advance();
      children.push_back((this->*next)());
    }
    if (children.size() == 1) return children.front();
    auto node = std::make_shared<ConditionNode>();
    node->kind = kind;
    node->offset = offset;
    node->children = std::move(children);
    return node;
  }

  NodePointer part() {
    const Token first = token_;
    if (!first.is("not") && !first.is("(")) return comparison();
    // The only ways to go deeper. Everything that walks over a condition later goes as deep.
    if (++depth_ > kDeepest) {
      fail(first, "expected at most " + std::to_string(kDeepest) + " conditions inside each other");
    }
    advance();
    NodePointer node;
    if (first.is("not")) {
      auto negation = std::make_shared<ConditionNode>();
      negation->kind = Kind::negation;
      negation->offset = first.offset;
      negation->children.push_back(part());
      node = std::move(negation);
    } else {
      node = any();
      if (!token_.is(")")) fail(token_, "expected ')', got " + described(token_));
      advance();
    }
    --depth_;
    return node;
  }

  NodePointer comparison() {
    Operand left = operand();
    auto node = std::make_shared<ConditionNode>();
    node->offset = left.token.offset;
    node->name = left.token.written;
    node->relation_offset = token_.offset;
    node->relation_written = token_.written;
    if (const auto relation = relation_of(token_)) {
      advance();
      Operand right = operand();
      node->relation = *relation;
      if (left.constant) {
        if (right.constant)
          fail(left.token, "expected a name on one side of '" + node->relation_written + "'");
        node->relation = mirrored(*relation);
        std::swap(left, right);
        node->offset = left.token.offset;
        node->name = left.token.written;
      }
      if (right.constant) {
        node->constants.push_back(std::move(*right.constant));
      } else {
        node->other = right.token.written;
        node->other_offset = right.token.offset;
      }
      if (relation_of(token_)) {
        fail(token_, "comparisons cannot be chained: write 'a < b and b < c'");
      }
      return node;
    }
    if (left.constant) fail(left.token, "expected a name, got " + described(left.token));
    const bool negated = token_.is("not");
    if (negated) advance();
    if (token_.is("in")) {
      advance();
      node->relation = Relation::among;
      node->relation_written = negated ? "not in" : "in";
      node->constants = list();
    } else if (negated) {
      fail(token_, "expected 'in' after 'not', got " + described(token_));
    }
    if (!negated) return node;
    auto negation = std::make_shared<ConditionNode>();
    negation->kind = Kind::negation;
    negation->offset = node->offset;
    negation->children.push_back(std::move(node));
    return negation;
  }

  Operand operand() {
    const Token token = token_;
    switch (token.kind) {
      case Token::Kind::name: advance(); return {token, std::nullopt};
      case Token::Kind::number:
      case Token::Kind::text: return {token, constant()};
      case Token::Kind::word:
        if (token.is("true") || token.is("false")) return {token, constant()};
        [[fallthrough]];
      default: fail(token, "expected a name or a constant, got " + described(token));
    }
  }

  ConditionConstant constant() {
    const Token token = token_;
    ConditionConstant constant;
    constant.offset = token.offset;
    constant.written = token.written;
    if (token.is("true") || token.is("false")) {
      constant.kind = ConditionConstant::Kind::truth;
      constant.truth = token.is("true");
    } else if (token.kind == Token::Kind::text) {
      constant.kind = ConditionConstant::Kind::text;
      constant.text = token.written.substr(1, token.written.size() - 2);
    } else if (token.kind == Token::Kind::number) {
      read_number(token, constant);
    } else {
      fail(token, "expected a constant, got " + described(token));
    }
    advance();
    return constant;
  }

  static void read_number(const Token& token, ConditionConstant& constant) {
    std::string_view digits = token.written;
    if (digits.starts_with('+')) digits.remove_prefix(1);  // from_chars takes no plus
    const char* end = digits.data() + digits.size();
    const bool whole = digits.find_first_of(".eE") == std::string_view::npos;
    const auto [stop, error] = whole ? std::from_chars(digits.data(), end, constant.whole)
                                     : std::from_chars(digits.data(), end, constant.real);
    if (error == std::errc::result_out_of_range)
      fail(token, "the number " + described(token) + " is out of range");
    if (error != std::errc() || stop != end) fail(token, "expected a number, got " + described(token));
    constant.kind = whole ? ConditionConstant::Kind::whole : ConditionConstant::Kind::real;
    if (whole) constant.real = static_cast<double>(constant.whole);
  }

  std::vector<ConditionConstant> list() {
    if (!token_.is("[")) fail(token_, "expected '[' after 'in', got " + described(token_));
    advance();
    std::vector<ConditionConstant> found{constant()};
    while (token_.is(",")) {
      advance();
      found.push_back(constant());
    }
    if (!token_.is("]")) fail(token_, "expected ',' or ']', got " + described(token_));
    advance();
    return found;
  }

  // ---- words

  void advance() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    token_ = {Token::Kind::end, at_, {}};
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (is_letter(c)) return take_name();
    const bool signed_number = (c == '-' || c == '+') && at_ + 1 < text_.size() &&
                               (is_digit(text_[at_ + 1]) || text_[at_ + 1] == '.');
    if (is_digit(c) || c == '.' || signed_number) return take_number();
    if (c == '\'' || c == '"') return take_text(c);
    for (const std::string_view symbol : kSymbols) {
      const bool foreign = symbol == "<" && text_.substr(at_).starts_with("<>");
      if (text_.substr(at_).starts_with(symbol) && !foreign) return take(Token::Kind::symbol, symbol.size());
    }
    for (const auto& [written, ours] : kForeign) {
      if (text_.substr(at_).starts_with(written)) {
        throw ConditionError(at_, "expected '" + std::string(ours) + "', got '" + std::string(written) + "'");
      }
    }
    std::size_t length = 1;  // of a UTF-8 character, whole
    while (at_ + length < text_.size() && (static_cast<unsigned char>(text_[at_ + length]) & 0xC0) == 0x80)
      ++length;
    throw ConditionError(at_, "unexpected character '" + std::string(text_.substr(at_, length)) + "'");
  }

  void take(Token::Kind kind, std::size_t length) {
    token_ = {kind, at_, text_.substr(at_, length)};
    at_ += length;
  }

  void take_name() {
    std::size_t length = 1;
    while (at_ + length < text_.size() && is_part_of_name(text_[at_ + length])) ++length;
    bool word = false;
    for (const std::string_view each : kWords) word = word || text_.substr(at_, length) == each;
    take(word ? Token::Kind::word : Token::Kind::name, length);
  }

  void take_number() {
    std::size_t length = 1;
    while (at_ + length < text_.size()) {
      const char c = text_[at_ + length], before = text_[at_ + length - 1];
      const bool exponent_sign = (c == '-' || c == '+') && (before == 'e' || before == 'E');
      if (!is_part_of_name(c) && c != '.' && !exponent_sign) break;
      ++length;
    }
    take(Token::Kind::number, length);
  }

  void take_text(char quote) {
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos)
      throw ConditionError(at_, std::string("a text has no closing ") + quote);
    take(Token::Kind::text, end + 1 - at_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_;
  int depth_ = 0;
};

}  // namespace

Condition parse_condition(std::string_view text) { return {std::string(text), Parser(text).parse()}; }

}  // namespace fla::dispatch
