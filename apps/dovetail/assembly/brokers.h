// What the subcommands ask of a broker, whichever it is. Each has a file of its own,
// broker_NAME.cc, which turns what the config says into the adapter's options; broker_settings.h
// helps it with the settings that are its own.
#pragma once

#include <memory>
#include <vector>

#include "config/config.h"
#include "core/clock.h"
#include "core/operations.h"
#include "core/relay/sink.h"
#include "core/relay/source.h"
#include "dovetail/result.h"

namespace dovetail::app {

struct BrokerKind {
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
};

// REQUIRES: store.is_broker(). Null: this dovetail was built without it.
const BrokerKind* broker_of(const config::StoreConfig& store);

extern const BrokerKind kKafka;
extern const BrokerKind kRabbitmq;
extern const BrokerKind kNats;
extern const BrokerKind kRedis;
extern const BrokerKind kHttp;

}  // namespace dovetail::app
