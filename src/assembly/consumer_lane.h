// A consumer: a relay into an inbox, with handlers inside its transaction and external ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assembly/wiring.h"
#include "config/config.h"
#include "core/sinks/chained_sink.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// The name of a handler's inbox rows: "stock", or "stock.ledger".
std::string inbox_name(const std::string& consumer, const std::string& handler);
std::string inbox_name(const config::ConsumerConfig& consumer,
                       const config::HandlerConfig& handler);

// The stages of one worker, each with its own connections: handlers inside the transaction first.
using MakeStages = std::function<std::vector<ChainedSink::Stage>(std::uint32_t worker)>;

// A consumer, whether a configuration file or an application describes it. The stores and the relay
// must outlive its lane.
struct ConsumerPlan {
  const config::StoreConfig& from;   // that is read; not used with an origin
  const config::StoreConfig& home;   // keeps the state of a broker's reader
  const config::RelayConfig& relay;  // its lanes: how many workers share the keys
  SourceKind source = SourceKind::outbox;
  Origin origin{};
  std::string target{};               // see target.h; empty: unknown
  std::vector<std::string> topics{};  // only these; empty: all
  MakeStages make_stages{};
  std::function<void(const RelayNotice&)> notify{};  // called on any thread
};
Result<std::unique_ptr<Lane>> make_consumer_lane(ConsumerPlan plan, Clock& clock);

// One of the config file, which must outlive the lane.
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
