#include <algorithm>
#include <iostream>

#include "fla/dispatch/observe/ops.h"
#include "tools/fla/command.h"
#include "tools/fla/text_table.h"
#include "tools/fla/variables.h"

/// The tables of the documents, printed from the registry, the argument tables and the command's own options.
/// None depends on the machine.
namespace fla::command {
namespace {

std::string code(std::string_view text) { return text.empty() ? "" : "`" + std::string(text) + "`"; }

std::string code_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + code(word);
  return text;
}

std::string backends() {
  TextTable table({"op", "backend", "priority", "toggle", "default", "built on", "functions", "what it is"});
  for (const OpStatus& op : ops()) {
    const auto add = [&](const BackendStatus& backend, const std::string& priority) {
      const BackendInfo& info = backend.info;
      table.add({code(op.name), code(info.name), priority, code(info.env_var),
                 info.default_enable ? "on" : "off", std::string(info.package), code_list(backend.functions),
                 std::string(info.doc)});
    };
    for (const BackendStatus& backend : op.backends) add(backend, std::to_string(backend.info.priority));
    add(op.original, "last");
  }
  return table.markdown();
}

std::string variables_table() {
  TextTable table({"variable", "values", "default", "meaning"});
  for (const ListedVariable& variable : listed_variables()) {
    table.add({code(variable.name), variable.values, variable.fallback, variable.meaning});
  }
  return table.markdown();
}

std::string dtypes(DTypeSet set) {
  std::string text;
  for (const DType type : {DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64}) {
    if (set.contains(type)) text += (text.empty() ? "" : ", ") + std::string(name_of(type));
  }
  return text;
}

std::string kind(const Argument& argument) {
  switch (argument.kind) {
    case ArgumentKind::tensor: return "tensor";
    case ArgumentKind::index: return "index";
    case ArgumentKind::output: return "output";
    case ArgumentKind::number: return "number";
    case ArgumentKind::integer: return "integer";
    case ArgumentKind::flag: return "flag";
  }
  return "";
}

std::string meaning(const Argument& argument) {
  std::string text(argument.doc);
  if (!argument.needs.empty()) text += "; needs " + code(argument.needs);
  return text;
}

std::string arguments_table(const std::string& whose, ArgumentTable arguments) {
  TextTable table({"argument", "kind", "required", "dtypes", "shape", "meaning"});
  for (const Argument& argument : arguments) {
    table.add({code(argument.name), kind(argument), argument.need == Need::required ? "yes" : "",
               dtypes(argument.dtypes), code(argument.shape.text), meaning(argument)});
  }
  return "Arguments of " + code(whose) + ":\n\n" + table.markdown();
}

std::string arguments() {
  std::string text;
  const auto add = [&text](const std::string& table) { text += (text.empty() ? "" : "\n") + table; };
  for (const OpStatus& op : ops()) {
    const auto has_table = [](ArgumentTable table) {
      return [table](ArgumentTable other) { return other.data() == table.data(); };
    };
    // What several functions take are the op's arguments.
    for (std::size_t i = 0; i < op.functions.size(); ++i) {
      const bool shared = std::ranges::count_if(op.tables, has_table(op.tables[i])) > 1;
      const bool is_first = std::ranges::find_if(op.tables, has_table(op.tables[i])) ==
                            op.tables.begin() + static_cast<std::ptrdiff_t>(i);
      const bool is_whole = shared || op.functions[i] == op.name;
      if (is_first) add(arguments_table(is_whole ? op.name : op.name + "." + op.functions[i], op.tables[i]));
    }
  }
  return text;
}

/// How an option is written: `op`, `--json`, `--in VALUE`, `--threads VALUE…`.
std::string usage(const CLI::Option& option) {
  const bool positional = option.get_positional();
  std::string text = option.get_name(positional, !positional);
  if (!positional && option.get_expected_max() > 0) text += " VALUE";  // no flag
  return text + (option.get_expected_max() > 1 ? "…" : "");
}

/// Told from the parsers themselves: what --help prints is laid out as the version of CLI11 likes it.
void add_commands(const CLI::App& app, const std::string& name, std::string& text) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    const std::string full = name + " " + command->get_name();
    text += (text.empty() ? "### `" : "\n### `") + full + "`\n\n" + command->get_description() + "\n";
    TextTable table({"option", "required", "meaning"});
    bool any = false;
    for (const CLI::Option* option : command->get_options()) {
      if (option == command->get_help_ptr()) continue;
      table.add({code(usage(*option)), option->get_required() ? "yes" : "", option->get_description()});
      any = true;
    }
    if (any) text += "\n" + table.markdown();
    add_commands(*command, full, text);
  }
}

std::string commands(const CLI::App& app) {
  std::string text;
  add_commands(app, app.get_name(), text);
  return text;
}

struct Section {
  std::string name, title;
  std::string (*print)(const CLI::App& app);
};

const std::vector<Section>& sections() {
  static const std::vector<Section> all{
      {"backends", "Backends", [](const CLI::App&) { return backends(); }},
      {"variables", "Environment variables", [](const CLI::App&) { return variables_table(); }},
      {"arguments", "Arguments", [](const CLI::App&) { return arguments(); }},
      {"commands", "Commands", commands}};
  return all;
}

ExitCode print(const std::string& wanted, const CLI::App& app) {
  bool first = true;
  for (const Section& section : sections()) {
    if (!wanted.empty() && section.name != wanted) continue;
    if (wanted.empty()) std::cout << (first ? "" : "\n") << "## " << section.title << "\n\n";
    std::cout << section.print(app);
    first = false;
  }
  return kDone;
}

}  // namespace

void add_docs(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("docs", "the tables of the documents, from the registry and the options themselves");
  auto wanted = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Section& section : sections()) names.push_back(section.name);
  command->add_option("--section", *wanted, "print this table alone")->check(CLI::IsMember(names));
  command->callback([&app, &chosen, wanted] { chosen = [&app, wanted] { return print(*wanted, app); }; });
}

}  // namespace fla::command
