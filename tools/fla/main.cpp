#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/suggest.h"
#include "tools/cases/file_error.h"
#include "tools/fla/command.h"

namespace fla::command {
namespace {

std::string& line_of_words() {
  static std::string line;
  return line;
}

/// A script's variable that is not set must not mean "left out": every value says something.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_size() == 0) continue;  // a flag
    option->check(CLI::Validator(
        [](const std::string& value) { return value.empty() ? "expected a value, got an empty one" : ""; },
        ""));
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

/// What is wrong with a word where a subcommand is expected; empty when there is none, or it is one.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
  if (known.empty() || words.empty() || words.front().starts_with('-')) return "";
  const auto found = std::ranges::find(known, words.front());
  if (found == known.end()) {
    return "there is no command '" + words.front() + "'" + suggestion(words.front(), known);
  }
  return unknown_command(*app.get_subcommand(*found), {words.begin() + 1, words.end()});
}

ExitCode run(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) line_of_words() += (i == 0 ? "" : " ") + std::string(argv[i]);
  CLI::App app{
      "fla: linear attention; a call goes to the first backend, in ascending priority, that takes it", "fla"};
  app.set_version_flag("--version", FLA_VERSION);
  app.require_subcommand(1);
  Action chosen;
  for (const auto add : {add_ops, add_explain, add_run, add_check, add_bench, add_config, add_conformance,
                         add_env, add_plugins, add_docs})
    add(app, chosen);
  refuse_empty_values(app);
  if (const std::string unknown = unknown_command(app, {argv + std::min(argc, 1), argv + argc});
      !unknown.empty()) {
    complain(unknown + " (see fla --help)");
    return kBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return kDone;
  } catch (const CLI::ParseError& error) {
    complain(std::string(error.what()) + " (see fla --help)");
    return kBadInput;
  }
  return chosen();
}

ExitCode run_and_report(int argc, char** argv) {
  try {
    const ExitCode code = run(argc, argv);
    std::cout.flush();
    if (!std::cout) {
      complain("standard output cannot be written");
      return kBadInput;
    }
    return code;
  } catch (const BackendError& error) {
    complain(error.what());
    return kBackendFailed;
  } catch (const Error& error) {  // an argument, a setting or a file
    complain(error.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    complain("there is not enough memory for this call");
    return kBadInput;
  } catch (const std::exception& error) {
    complain(error.what());
    return kBackendFailed;
  }
}

}  // namespace

const std::string& command_line() { return line_of_words(); }

void complain(std::string_view line) { std::cerr << "fla: " << cases::printable(line) << '\n'; }

}  // namespace fla::command

int main(int argc, char** argv) { return fla::command::run_and_report(argc, argv); }
