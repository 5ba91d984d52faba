// A consumer of the config file: a relay into an inbox, with handlers inside its transaction and
// external ones.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "assembly/wiring.h"
#include "config/config.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// The name of a handler's inbox rows: "stock", or "stock.ledger".
std::string inbox_name(const config::ConsumerConfig& consumer,
                       const config::HandlerConfig& handler);

// `config` must outlive the lane. `notify` may be called on any thread.
Result<std::unique_ptr<Lane>> make_consumer_lane(const config::Config& config,
                                                 const config::ConsumerConfig& consumer,
                                                 Clock& clock,
                                                 std::function<void(const RelayNotice&)> notify);

// Finds handlers that can never work before the first event: a missing function, a program that
// cannot run, an unusable endpoint. Errors as from Database::check_handlers.
Status check_handlers(const config::Config& config, const config::ConsumerConfig& consumer,
                      Clock& clock);

// One line for people: the source, the target, and what happens to each event.
std::string describe(const config::Config& config, const config::ConsumerConfig& consumer);

}  // namespace dovetail::assembly
