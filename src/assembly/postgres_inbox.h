// Consumers whose inbox is in PostgreSQL.
#pragma once

#include <cstdint>
#include <memory>

#include "config/config.h"
#include "core/relay/sink.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// As in Database.
Result<std::shared_ptr<Sink>> make_postgres_inbox(const config::StoreConfig& store,
                                                  const config::ConsumerConfig& consumer,
                                                  std::uint32_t lane);
Status check_postgres_handlers(const config::StoreConfig& store,
                               const config::ConsumerConfig& consumer);

}  // namespace dovetail::assembly
