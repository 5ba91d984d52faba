#include "assembly/inbox_retention.h"

#include "assembly/brokers/brokers.h"
#include "config/units.h"
#include "core/findings.h"

namespace dovetail::assembly {
namespace {

constexpr Check kUnknown{
    Severity::note, "inbox-retention-unknown", nullptr,
    "for how long it keeps what the consumer {consumer} reads is not known: {error}",
    "let retention.inbox be longer than that"};
constexpr Check kForgets[] = {
    {Severity::error, "inbox-retention", [](const Facts& f) { return f.has("kept"); },
     "{what} keeps events for {kept}, and the inbox of the consumer {consumer} remembers them for "
     "{remembered}: what is read again after that is refused and parked",
     "let retention.inbox be longer than what the broker keeps"},
    {Severity::warning, "inbox-retention", [](const Facts& f) { return !f.has("kept"); },
     "{what} keeps events without limit, and the inbox of the consumer {consumer} remembers them "
     "for {remembered}: what is read again after that is refused and parked",
     "limit what the broker keeps to less than retention.inbox, or leave retention.inbox out, so "
     "that everything is remembered"},
};

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
  Findings findings;
  Facts facts;
  facts.set("consumer", consumer->relay.name)
      .set("remembered", config::human_duration(*config.retention.inbox));
  const auto kept = broker_of(broker)->retention(broker);
  if (!kept) {
    findings.add(kUnknown, facts.set("error", kept.error().text));
    return findings.take();
  }
  for (const Kept& one : *kept) {
    if (!one.comes_again || (one.age && *one.age <= *config.retention.inbox)) continue;
    Facts of_one = facts;
    of_one.set("what", one.what);
    if (one.age) of_one.set("kept", config::human_duration(*one.age));
    findings.check(kForgets, of_one);
  }
  return findings.take();
}

}  // namespace dovetail::assembly
