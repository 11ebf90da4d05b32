#include "fla/dispatch/config/config.h"

#include <cstdlib>
#include <iostream>

#include "fla/core/errors.h"
#include "tools/cases/file_error.h"
#include "tools/fla/command.h"

namespace fla::command {
namespace {

ExitCode check_file(const std::string& file) {
  // The file that FLA_CONFIG names may be the one that is wrong; others of its settings have no say here.
  ::unsetenv("FLA_CONFIG");
  try {
    const std::size_t rules = check_config(file).rules;
    std::cout << file << ": ok, " << rules << (rules == 1 ? " rule" : " rules") << '\n';
    return kDone;
  } catch (const ConfigError& error) {
    std::cerr << cases::printable(error.what()) << '\n';  // FILE:LINE at the beginning, as editors want it
    return kBadInput;
  }
}

}  // namespace

void add_config(CLI::App& app, Action& chosen) {
  CLI::App* config = app.add_subcommand("config", "the config file that FLA_CONFIG names");
  config->require_subcommand(1);
  CLI::App* check =
      config->add_subcommand("check", "says whether a config file is right; FILE:LINE: … when it is not");
  auto file = std::make_shared<std::string>();
  check->add_option("file", *file, "a TOML file")->required();
  check->callback([&chosen, file] { chosen = [file] { return check_file(*file); }; });
}

}  // namespace fla::command
