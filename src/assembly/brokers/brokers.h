// What relays and commands need from any broker. Each broker has its own file, which turns the
// configuration into options of its adapter; settings.h reads its own settings.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/reference.h"
#include "core/clock.h"
#include "core/life/life.h"
#include "core/operations.h"
#include "core/reconcile/comparison.h"
#include "core/relay/sink.h"
#include "core/relay/source.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

struct BrokerKind {
  // The keys of [store.NAME.settings], for the reference.
  std::vector<config::KeyReference> (*settings)();
  // Checks what only this adapter understands: url, settings, TLS. rejected: something is wrong.
  // unavailable: a secret is missing. The text begins with the place in the config file.
  Status (*prepare)(const config::StoreConfig& store);
  Result<std::unique_ptr<Sink>> (*make_sink)(const config::StoreConfig& to, Clock& clock);
  // `call_max`: the longest call, except open(), beyond the wait that it is asked for.
  Result<std::unique_ptr<Source>> (*make_source)(const config::StoreConfig& from, Duration call_max,
                                                 Clock& clock);
  // What is unsafe there, and the remedy. unavailable: it does not answer.
  Result<std::vector<Finding>> (*examine)(const config::StoreConfig& store,
                                          const config::Config& config);
  // How long it keeps what consumers read.
  Result<std::vector<Kept>> (*retention)(const config::StoreConfig& store);
  // A warning for operators before a relay fills it; empty: none. Null: never a warning.
  std::string_view (*caution)(const config::StoreConfig& to) = nullptr;
  // One event, in the places that a relay noted: a trace waits for it at most about `time_max`.
  // Null: it cannot be asked for one event.
  Result<life::BrokerAnswer> (*find_event)(const config::StoreConfig& store, const EventId& id,
                                           std::span<const PlaceRange> places,
                                           Duration time_max) = nullptr;
  // A topic as a side of a comparison: what came since `from`. Null: its messages cannot be read
  // again.
  Result<std::unique_ptr<reconcile::ReceiverScan>> (*scan_topic)(
      const config::StoreConfig& store, const std::string& topic, WallTime from,
      const reconcile::Watch& watch) = nullptr;
};

// REQUIRES: store.is_broker(). Null: this binary was built without it.
const BrokerKind* broker_of(const config::StoreConfig& store);
// The settings of all brokers in this build, for the reference.
std::vector<config::TableReference> settings_references();
// BrokerKind::caution; empty for a database.
std::string_view caution_of(const config::StoreConfig& to);

extern const BrokerKind kKafka;
extern const BrokerKind kRabbitmq;
extern const BrokerKind kNats;
extern const BrokerKind kRedis;
extern const BrokerKind kHttp;

}  // namespace dovetail::assembly
