#include "assembly/inbox_retention.h"

#include "assembly/brokers/brokers.h"
#include "config/units.h"

namespace dovetail::assembly {
namespace {

const config::ConsumerConfig* consumer_of(const config::StoreConfig& broker,
                                          const config::Config& config) {
  for (const config::ConsumerConfig& consumer : config.consumers) {
    if (consumer.relay.from == broker.name) return &consumer;
  }
  return nullptr;
}

}  // namespace

std::vector<Finding> examine_retention(const config::StoreConfig& broker,
                                       const config::Config& config) {
  const config::ConsumerConfig* const consumer = consumer_of(broker, config);
  if (consumer == nullptr || !config.retention.inbox) return {};
  const auto kept = broker_of(broker)->retention(broker);
  if (!kept) {
    return {{Severity::note, "inbox-retention-unknown",
             "for how long it keeps what the consumer " + consumer->relay.name +
                 " reads is not known: " + kept.error().text,
             "let retention.inbox be longer than that"}};
  }
  std::vector<Finding> findings;
  const std::string remembered = config::human_duration(*config.retention.inbox);
  for (const Kept& one : *kept) {
    if (!one.comes_again || (one.age && *one.age <= *config.retention.inbox)) continue;
    findings.push_back(
        {one.age ? Severity::error : Severity::warning, "inbox-retention",
         one.what + " keeps events " +
             (one.age ? "for " + config::human_duration(*one.age) : "without limit") +
             ", and the inbox of the consumer " + consumer->relay.name + " remembers them for " +
             remembered + ": what is read again after that is refused and parked",
         one.age ? "let retention.inbox be longer than what the broker keeps"
                 : "limit what the broker keeps to less than retention.inbox, or leave "
                   "retention.inbox out, so that everything is remembered"});
  }
  return findings;
}

}  // namespace dovetail::assembly
