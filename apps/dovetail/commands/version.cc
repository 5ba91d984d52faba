#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/output.h"
#include "sqlite/connection/database.h"

namespace dovetail::app {

Answer version(const CommandContext& context) {
  if (context.json) {
    print_json({{"version", DOVETAIL_VERSION}, {"sqlite_schema", sqlite::kSchemaVersion}});
  } else {
    print("dovetail " DOVETAIL_VERSION "\n");
  }
  return Exit::ok;
}

}  // namespace dovetail::app
