#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "fla/core/errors.h"
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

ExitCode run(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) line_of_words() += (i == 0 ? "" : " ") + std::string(argv[i]);
  CLI::App app{"fla: linear attention, dispatched to the fastest backend that takes a call", "fla"};
  app.set_version_flag("--version", FLA_VERSION);
  app.require_subcommand(1);
  Action chosen;
  for (const auto add : {add_ops, add_explain, add_run, add_check, add_bench, add_config, add_conformance,
                         add_env, add_plugins, add_docs})
    add(app, chosen);
  refuse_empty_values(app);
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
