#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

/// The subcommands of `fla`. Each stands in a file of its own and adds itself to the app; what it does is put
/// into `chosen` when the command line names it, and runs after the whole line has been read.
namespace fla::command {

/// What scripts may rely on.
enum ExitCode : int { kDone = 0, kOutOfTolerance = 1, kBadInput = 2, kBackendFailed = 3 };

using Action = std::function<ExitCode()>;

void add_ops(CLI::App& app, Action& chosen);
void add_explain(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_check(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_config(CLI::App& app, Action& chosen);
void add_conformance(CLI::App& app, Action& chosen);
void add_env(CLI::App& app, Action& chosen);
void add_plugins(CLI::App& app, Action& chosen);
void add_docs(CLI::App& app, Action& chosen);

/// The words that the process was started with, as one line.
const std::string& command_line();

/// One line on standard error: "fla: …".
void complain(std::string_view line);

}  // namespace fla::command
