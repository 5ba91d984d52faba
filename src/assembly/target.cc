#include "assembly/target.h"

#include "assembly/database.h"

namespace dovetail::assembly {

std::string target_of(const config::Config& config, const config::RelayConfig& relay) {
  const config::StoreConfig& home = home_of(relay, config);
  const config::StoreConfig& other =
      *config.find_store(home.name == relay.from ? relay.to : relay.from);
  if (!other.is_broker() && other.name == home.name) return "the same database";
  return database_of(other)->place(home);
}

}  // namespace dovetail::assembly
