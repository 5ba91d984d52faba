#include "assembly/brokers/brokers.h"

#include <initializer_list>
#include <utility>

namespace dovetail::assembly {
namespace {

struct Row {
  config::StoreScheme scheme;
  const BrokerKind& kind;
  const char* settings;  // the name of its table in the reference
};

// The brokers of this build.
constexpr std::initializer_list<Row> kBrokers = {
#ifdef DOVETAIL_HAS_KAFKA
    {config::StoreScheme::kafka, kKafka, "kafka"},
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
    {config::StoreScheme::rabbitmq, kRabbitmq, "rabbitmq"},
#endif
#ifdef DOVETAIL_HAS_NATS
    {config::StoreScheme::nats, kNats, "nats"},
#endif
#ifdef DOVETAIL_HAS_REDIS
    {config::StoreScheme::redis, kRedis, "redis"},
#endif
#ifdef DOVETAIL_HAS_HTTP
    {config::StoreScheme::http, kHttp, "webhook"},
#endif
};

}  // namespace

const BrokerKind* broker_of(const config::StoreConfig& store) {
  for (const Row& row : kBrokers)
    if (row.scheme == store.scheme) return &row.kind;
  return nullptr;
}

std::vector<config::TableReference> settings_references() {
  std::vector<config::TableReference> tables;
  for (const Row& row : kBrokers) {
    const config::StoreType& type = config::type_of(row.scheme);
    tables.push_back({row.settings, "[store.NAME.settings], " + std::string(type.name),
                      "Settings that only " + std::string(type.name) + " has.",
                      row.kind.settings()});
  }
  return tables;
}

std::string_view caution_of(const config::StoreConfig& to) {
  const BrokerKind* const kind = to.is_broker() ? broker_of(to) : nullptr;
  return kind != nullptr && kind->caution != nullptr ? kind->caution(to) : std::string_view();
}

}  // namespace dovetail::assembly
