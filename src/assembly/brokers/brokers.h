// What relays and commands ask of a broker, whichever it is. Each has a file of its own, which
// turns what the config says into the adapter's options; settings.h helps it with its own settings.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/reference.h"
#include "core/clock.h"
#include "core/operations.h"
#include "core/relay/sink.h"
#include "core/relay/source.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

struct BrokerKind {
  // The keys of [store.NAME.settings], for the reference.
  std::vector<config::KeyReference> (*settings)();
  // Checks what only this adapter understands: url, settings, TLS. rejected: it is wrong;
  // unavailable: a secret is missing. The text begins with the place in the config file.
  Status (*prepare)(const config::StoreConfig& store);
  Result<std::unique_ptr<Sink>> (*make_sink)(const config::StoreConfig& to, Clock& clock);
  // `call_max`: no call of it but open() takes longer, beyond what it is told to wait.
  Result<std::unique_ptr<Source>> (*make_source)(const config::StoreConfig& from, Duration call_max,
                                                 Clock& clock);
  // What is unsafe there, with what to change. unavailable: it does not answer.
  Result<std::vector<Finding>> (*examine)(const config::StoreConfig& store,
                                          const config::Config& config);
  // How long it keeps what it is read for.
  Result<std::vector<Kept>> (*retention)(const config::StoreConfig& store);
  // What an operator should know before a relay fills it; empty: nothing. Null: always nothing.
  std::string_view (*caution)(const config::StoreConfig& to) = nullptr;
};

// REQUIRES: store.is_broker(). Null: this dovetail was built without it.
const BrokerKind* broker_of(const config::StoreConfig& store);
// The settings of every broker of this build, for the reference.
std::vector<config::TableReference> settings_references();
// BrokerKind::caution; empty for a database.
std::string_view caution_of(const config::StoreConfig& to);

extern const BrokerKind kKafka;
extern const BrokerKind kRabbitmq;
extern const BrokerKind kNats;
extern const BrokerKind kRedis;
extern const BrokerKind kHttp;

}  // namespace dovetail::assembly
