// A consumer of the config file: a relay into an inbox, with handlers inside its transaction and
// outside of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "assembly/wiring.h"
#include "config/config.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// Under which name a handler's inbox rows stand: "stock", or "stock.ledger".
std::string inbox_name(const config::ConsumerConfig& consumer,
                       const config::HandlerConfig& handler);

// `config` must outlive the lane. `notify` may be called on any thread.
Result<std::unique_ptr<Lane>> make_consumer_lane(const config::Config& config,
                                                 const config::ConsumerConfig& consumer,
                                                 Clock& clock,
                                                 std::function<void(const RelayNotice&)> notify);

// What can never work, found before the first event comes: a function that is missing, a program
// that cannot be run, an endpoint that cannot be used. Errors as those of Database::check_handlers.
Status check_handlers(const config::Config& config, const config::ConsumerConfig& consumer,
                      Clock& clock);

// In one line, for people: where from, where to, and what is done with each event.
std::string describe(const config::Config& config, const config::ConsumerConfig& consumer);

}  // namespace dovetail::assembly
