#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "fla/dispatch/choice/call_by_name.h"
#include "fla/fla.h"
#include "tests/plugins/acme_sum.h"
#include "tests/plugins/is_module.h"

/// Does what its words say, one after the other, in a process in which nothing has happened before, and
/// prints a line for each:
///     secure  load=PATH  plugins  other  kda=K  explain=K  sum=A  count  policy=BACKEND  reload=PATH
///     loosen=PATH
namespace other {

struct Args {
  using Result = int;
};
int other(const Args& args);
namespace original {
int other(const Args& args);
}
DISPATCH("other", int, other, const Args&) { return 1; }

}  // namespace other

namespace {

struct Call {
  explicit Call(std::int64_t channels)
      : x(fla::Tensor::zeros({1, 40, 1, channels}, fla::DType::f32)),
        beta(fla::Tensor::zeros({1, 40, 1}, fla::DType::f32)) {}
  fla::Tensor x, beta;
  fla::KdaArgs args{.q = x, .k = x, .v = x, .g = x, .beta = beta};
};

std::string plugins() {
  std::string text;
  for (const fla::PluginStatus& plugin : fla::plugins()) {
    if (fla_test::is_module(plugin.path)) continue;
    text += (text.empty() ? "" : "; ") + plugin.name + " " + plugin.state;
    if (!plugin.reason.empty()) text += ": " + plugin.reason;
  }
  return text.empty() ? "none" : text;
}

/// Whether the backend came with the library, linked in or as a module.
bool is_own(const std::string& backend) {
  for (const fla::OpStatus& op : fla::ops()) {
    for (const fla::BackendStatus& each : op.backends) {
      if (each.info.name == backend) return each.origin.empty() || fla_test::is_module(each.origin);
    }
  }
  return false;
}

std::string rows(const fla::Explanation& explanation) {
  std::string text;
  for (const fla::Explanation::Row& row : explanation.rows) {
    if (is_own(row.name)) continue;
    text += (text.empty() ? "" : "; ") + row.name + " " + row.state;
    if (!row.reason.empty()) text += ": " + row.reason;
  }
  return text.empty() ? "none" : text;
}

std::string step(const std::string& what, const std::string& value) {
  if (what == "secure") return std::to_string(::getauxval(AT_SECURE));
  if (what == "load") {
    const fla::PluginStatus status = fla::load_plugin(value);
    return status.state + (status.reason.empty() ? "" : ": " + status.reason);
  }
  if (what == "reload") {
    ::setenv("FLA_PLUGIN_PATH", value.c_str(), 1);
    fla::reload_environment();
    return "done";
  }
  if (what == "loosen") {
    std::filesystem::permissions(value, std::filesystem::perms{0777});
    return "done";
  }
  if (what == "plugins") return plugins();
  if (what == "other") return std::to_string(other::other({}));
  if (what == "kda") {
    const Call call(std::stol(value));
    const std::string selected = fla::explain("kda", "chunk_kda", call.args).selected;
    (void)fla::chunk_kda(call.args);
    return selected == "cpu_simd" ? "ran" : selected;
  }
  if (what == "explain") return rows(fla::explain("kda", "chunk_kda", Call(std::stol(value)).args));
  if (what == "sum")
    return std::to_string(fla::call("acme_sum.sum", acme::SumArgs{.a = std::stol(value), .b = 2}));
  if (what == "count") {
    const Call call(8);
    return std::to_string(fla::call("kda.count_tokens", acme::CountArgs{.q = call.x}));
  }
  if (what == "policy") {
    fla::set_policy({.require = {{"kda", value}}});
    return "done";
  }
  return "no such step";
}

}  // namespace

int main(int count, char** words) {
  ::alarm(120);  // a step that hangs is a failure
  for (const std::string& word : std::vector<std::string>(words + 1, words + count)) {
    const auto equals = word.find('=');
    const std::string what = word.substr(0, equals),
                      value = equals == std::string::npos ? "" : word.substr(equals + 1);
    std::string line;
    try {
      line = step(what, value);
    } catch (const std::exception& error) {
      line = std::string("error: ") + error.what();
    }
    std::printf("%s: %s\n", what.c_str(), line.c_str());
  }
  return 0;
}
