// Consumers whose inbox is in PostgreSQL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/relay/sink.h"
#include "dovetail/result.h"
#include "postgres/inbox/inbox_store.h"

namespace dovetail::assembly {

// The inbox of one lane, with the connection of that lane.
std::shared_ptr<Sink> make_postgres_inbox(const std::string& conninfo,
                                          const config::RelayConfig& relay, std::uint32_t lane,
                                          bool version_guard,
                                          std::vector<postgres::TransactionHandler> handlers);

// As in Database.
Result<std::shared_ptr<Sink>> make_postgres_inbox(const config::StoreConfig& store,
                                                  const config::ConsumerConfig& consumer,
                                                  std::uint32_t lane);
Status check_postgres_handlers(const config::StoreConfig& store,
                               const config::ConsumerConfig& consumer);

}  // namespace dovetail::assembly
