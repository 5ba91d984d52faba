// The command line: the options of each command. Hides the parser library, which compiles
// slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/command.h"

namespace CLI {  // NOLINT(readability-identifier-naming): not ours to name
class App;
class Option;
}  // namespace CLI

namespace dovetail::app {

using Action = std::function<Answer(const CommandContext& context)>;

class Option {
 public:
  Option& required();
  Option& shows_default();
  Option& repeated();  // may be given several times, with one value each
  Option& hidden();
  Option& without_type();  // in the help
  Option& one_of(std::initializer_list<const char*> words);
  Option& range(std::int64_t least, std::int64_t most);
  Option& real_range(double least, double most);
  Option& excludes(const Option& other);
  Option& needs(const Option& other);

 private:
  friend class Command;
  explicit Option(CLI::Option* option) : option_(option) {}
  CLI::Option* option_;
};

// A command, or a subcommand. The target of an option must live as long as the action: keep it in
// what the action captures.
class Command {
 public:
  // Without an action it has subcommands.
  Command command(const char* name, const char* help, const std::string& footer = {},
                  Action action = {});
  void requires_command();
  // The action without a subcommand.
  void otherwise(Action action);

  Option option(const char* name, std::string& value, const char* help);
  Option option(const char* name, std::optional<std::string>& value, const char* help);
  Option option(const char* name, std::vector<std::string>& value, const char* help);
  Option option(const char* name, std::int64_t& value, const char* help);
  Option option(const char* name, std::uint64_t& value, const char* help);
  Option option(const char* name, double& value, const char* help);
  Option flag(const char* name, bool& value, const char* help);

 private:
  friend class CommandLine;
  Command(CLI::App* app, Action* chosen) : app_(app), chosen_(chosen) {}
  CLI::App* app_;
  Action* chosen_;
};

class CommandLine {
 public:
  CommandLine(const char* introduction, const char* footer);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command& commands() { return top_; }
  // Runs the chosen command, and prints errors to stderr. Returns the exit code.
  int run(int argc, char** argv);

 private:
  int report(const Failure& failure) const;

  std::unique_ptr<CLI::App> app_;
  CommandContext context_{};
  std::string config_file_ = "dovetail.toml";
  Action chosen_{};
  Command top_;
};

}  // namespace dovetail::app
