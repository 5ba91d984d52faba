// A consumer of the config file: a relay into an inbox, with handlers inside its transaction and
// outside of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "assembly/wiring.h"
#include "config/config.h"
#include "core/inbox/claims.h"
#include "core/relay/sink.h"
#include "dovetail/result.h"

namespace dovetail::app {

// The part of a consumer that its database has, in whichever kind that is.
struct InboxKind {
  // The handlers inside the transaction as one sink, with a connection of its own: that of `lane`.
  // Destroying it tells the database that the session ended well. REQUIRES: there is one.
  Result<std::unique_ptr<Sink>> (*make_inbox)(const config::StoreConfig& store,
                                              const config::ConsumerConfig& consumer,
                                              std::uint32_t lane);
  // Of one handler outside the transaction, by the name of its inbox rows.
  std::unique_ptr<ClaimStore> (*make_claims)(const config::StoreConfig& store,
                                             const std::string& name, Clock& clock);
  // Whether the database has what these handlers need. rejected: the text begins with the place in
  // the config file. unavailable: it does not answer.
  Status (*check)(const config::StoreConfig& store, const config::ConsumerConfig& consumer);
};

extern const InboxKind kPostgresInboxes;
extern const InboxKind kSqliteInboxes;

// REQUIRES: it is a database.
const InboxKind& inbox_kind_of(const config::StoreConfig& store);

// Under which name a handler's inbox rows stand: "stock", or "stock.ledger".
std::string inbox_name(const config::ConsumerConfig& consumer,
                       const config::HandlerConfig& handler);

// `config` must outlive the lane. `notify` may be called on any thread.
Result<std::unique_ptr<Lane>> make_consumer_lane(const config::Config& config,
                                                 const config::ConsumerConfig& consumer,
                                                 Clock& clock,
                                                 std::function<void(const RelayNotice&)> notify);

// What can never work, found before the first event comes: a function that is missing, a program
// that cannot be run, an endpoint that cannot be used. Errors as those of InboxKind::check.
Status check_handlers(const config::Config& config, const config::ConsumerConfig& consumer,
                      Clock& clock);

// In one line, for people: where from, where to, and what is done with each event.
std::string describe(const config::Config& config, const config::ConsumerConfig& consumer);

}  // namespace dovetail::app
