#include <nlohmann/json.hpp>

#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "sqlite/connection/database.h"

namespace dovetail::app {
namespace {

Answer version(const CommandContext& context) {
  if (context.json) {
    print_json({{"version", DOVETAIL_VERSION}, {"sqlite_schema", sqlite::kSchemaVersion}});
  } else {
    print("dovetail " DOVETAIL_VERSION "\n");
  }
  return Exit::ok;
}

}  // namespace

void add_version(Command& app) { app.command("version", "Print the version", "", version); }

}  // namespace dovetail::app
