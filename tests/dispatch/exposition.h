#pragma once

#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A strict reader of Prometheus' text format 0.0.4, of integer samples without timestamps: it also refuses
/// what the format only advises against. Throws std::runtime_error with the line that is wrong.
namespace fla_test::exposition {

using Labels = std::map<std::string, std::string>;

struct Metric {
  std::string help, type;
  std::map<Labels, std::uint64_t> samples;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::map<std::string, Metric> read() {
    while (!rest_.empty()) {
      const auto end = rest_.find('\n');
      if (end == std::string_view::npos) fail("the last line does not end", rest_);
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      cursor_ = line_;
      if (cursor_.starts_with("# ")) {
        description();
      } else {
        sample();
      }
    }
    close();
    return std::move(metrics_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, std::string_view where) const {
    throw std::runtime_error(what + ": " + std::string(where));
  }
  [[noreturn]] void fail(const std::string& what) const { fail(what, line_); }

  void expect(std::string_view word) {
    if (!cursor_.starts_with(word))
      fail("expected '" + std::string(word) + "' at '" + std::string(cursor_) + "'");
    cursor_.remove_prefix(word.size());
  }

  std::string name(bool colon) {
    std::size_t size = 0;
    const auto fits = [&](char c) {
      const auto letter = static_cast<unsigned char>(c);
      return std::isalpha(letter) || c == '_' || (colon && c == ':') || (size > 0 && std::isdigit(letter));
    };
    while (size < cursor_.size() && fits(cursor_[size])) ++size;
    if (size == 0) fail("expected a name at '" + std::string(cursor_) + "'");
    std::string found(cursor_.substr(0, size));
    cursor_.remove_prefix(size);
    return found;
  }

  void description() {
    expect("# ");
    if (cursor_.starts_with("HELP ")) {
      expect("HELP ");
      close();
      current_ = name(true);
      if (metrics_.contains(current_)) fail("a metric that is described twice");
      expect(" ");
      metrics_[current_].help = cursor_;
    } else {
      expect("TYPE ");
      if (name(true) != current_) fail("a TYPE that does not follow its HELP");
      Metric& metric = metrics_[current_];
      if (!metric.type.empty()) fail("a second TYPE");
      if (!metric.samples.empty()) fail("a TYPE after samples");
      expect(" ");
      if (cursor_ != "counter" && cursor_ != "gauge") fail("an unknown type");
      metric.type = cursor_;
    }
  }

  /// The metric before is complete.
  void close() const {
    if (current_.empty()) return;
    const Metric& metric = metrics_.at(current_);
    if (metric.type.empty()) fail("a metric without a TYPE", current_);
    if ((metric.type == "counter") != current_.ends_with("_total"))
      fail("a counter is called _total", current_);
  }

  void sample() {
    if (name(true) != current_) fail("a sample outside its metric's group");
    expect("{");
    Labels labels;
    for (bool first = true; !cursor_.starts_with("}"); first = false) {
      if (!first) expect(",");
      const std::string label = name(false);
      if (label.starts_with("__")) fail("a reserved label");
      expect("=\"");
      if (!labels.emplace(label, value()).second) fail("a label that stands twice");
    }
    expect("} ");
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(cursor_.data(), cursor_.data() + cursor_.size(), number);
    if (error != std::errc() || stop != cursor_.data() + cursor_.size()) fail("expected a number");
    Metric& metric = metrics_[current_];
    if (metric.type.empty()) fail("a sample before its TYPE");
    if (!metric.samples.emplace(std::move(labels), number).second) fail("a series that stands twice");
  }

  std::string value() {
    std::string text;
    for (;;) {
      if (cursor_.empty()) fail("a label's value that does not end");
      const char c = cursor_.front();
      cursor_.remove_prefix(1);
      if (c == '"') break;
      if (c != '\\') {
        text += c;
        continue;
      }
      const char escape = cursor_.empty() ? '\0' : cursor_.front();
      if (escape != '\\' && escape != '"' && escape != 'n') fail("an escape that does not exist");
      text += escape == 'n' ? '\n' : escape;
      cursor_.remove_prefix(1);
    }
    check_utf8(text);
    return text;
  }

  void check_utf8(std::string_view text) const {
    for (std::size_t i = 0; i < text.size();) {
      const auto lead = static_cast<unsigned char>(text[i++]);
      const int more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : -1;
      if (more < 0) fail("a byte that is no UTF-8");
      for (int k = 0; k < more; ++k, ++i) {
        if (i == text.size() || static_cast<unsigned char>(text[i]) >> 6 != 2)
          fail("a byte that is no UTF-8");
      }
    }
  }

  std::string_view rest_, line_, cursor_;
  std::string current_;
  std::map<std::string, Metric> metrics_;
};

inline std::map<std::string, Metric> read(std::string_view text) { return Reader(text).read(); }

}  // namespace fla_test::exposition
