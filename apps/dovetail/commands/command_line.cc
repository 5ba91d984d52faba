#include "commands/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "commands/output.h"
#include "config/units.h"

namespace dovetail::app {

namespace {

// The parser may have failed before it reached --json.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

// The first word that should be a command but is not; empty: none.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* now = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.size() > 1 && word.front() == '-') {
      const CLI::Option* option = now->get_option_no_throw(word);
      if (option == nullptr) option = app.get_option_no_throw(word);
      if (option != nullptr && option->get_items_expected_max() > 0) ++i;
      continue;
    }
    const auto commands = now->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return {};
    const CLI::App* next = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* one : commands) {
      names.push_back(one->get_name());
      if (one->get_name() == word) next = one;
    }
    if (next != nullptr) {
      now = next;
      continue;
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string parent = now == &app ? "" : now->get_name() + " ";
    const std::string_view near = config::nearest_name(word, known);
    std::string text = "unknown command \"" + parent + printable(word, 60) + "\"; ";
    if (!near.empty()) text += "did you mean \"" + parent + std::string(near) + "\"? ";
    text += "Commands: ";
    for (const std::string& name : names) {
      if (&name != &names.front()) text += ", ";
      text += name;
    }
    return text + "; see 'dovetail " + parent + "--help'";
  }
  return {};
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::repeated() {
  option_->take_all()->expected(1);
  return *this;
}

Option& Option::hidden() {
  option_->group("");
  return *this;
}

Option& Option::without_type() {
  option_->type_name("");
  return *this;
}

Option& Option::one_of(std::initializer_list<const char*> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

Option& Option::range(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::real_range(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Command Command::command(const char* name, const char* help, const std::string& footer,
                         Action action) {
  CLI::App* sub = app_->add_subcommand(name, help);
  sub->footer("\n" + footer);
  sub->fallthrough();
  if (action) sub->callback([chosen = chosen_, action = std::move(action)] { *chosen = action; });
  return {sub, chosen_};
}

void Command::requires_command() { app_->require_subcommand(1); }

void Command::otherwise(Action action) {
  app_->require_subcommand(0, 1);
  app_->final_callback([chosen = chosen_, action = std::move(action)] {
    if (!*chosen) *chosen = action;
  });
}

Option Command::option(const char* name, std::string& value, const char* help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::option(const char* name, std::optional<std::string>& value, const char* help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::option(const char* name, std::vector<std::string>& value, const char* help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::option(const char* name, std::int64_t& value, const char* help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::option(const char* name, std::uint64_t& value, const char* help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::option(const char* name, double& value, const char* help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::flag(const char* name, bool& value, const char* help) {
  return Option(app_->add_flag(name, value, help));
}

CommandLine::CommandLine(const char* introduction, const char* footer)
    : app_(std::make_unique<CLI::App>(introduction, "dovetail")), top_(app_.get(), &chosen_) {
  app_->footer(footer);
  app_->require_subcommand(1);
  app_->set_version_flag("--version", "dovetail " DOVETAIL_VERSION);
  app_->add_option("--config,-c", config_file_, "The config file")
      ->capture_default_str()
      ->envname("DOVETAIL_CONFIG");
  app_->add_flag("--json", context_.json, "Print one JSON document instead of text");
}

CommandLine::~CommandLine() = default;

int CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream said;
    const int code = app_->exit(success, said, said);
    const auto width = terminal_width();
    print(width ? narrowed_help(said.str(), *width) : said.str());
    return code;
  } catch (const CLI::ParseError& error) {
    context_.json = asks_for_json(argc, argv);
    if (const std::string unknown = unknown_command(*app_, argc, argv); !unknown.empty())
      return report({Exit::usage, unknown});
    return report({Exit::usage, std::string(error.what()) + "; see 'dovetail --help'"});
  }
  context_.config_file = config_file_;
  const Answer answer = chosen_(context_);
  return answer ? static_cast<int>(*answer) : report(answer.error());
}

int CommandLine::report(const Failure& failure) const {
  if (context_.json) print_json_error(to_string(failure.exit), failure.text);
  std::fprintf(stderr, "dovetail: %s\n", failure.text.c_str());
  return static_cast<int>(failure.exit);
}

}  // namespace dovetail::app
