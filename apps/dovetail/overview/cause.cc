#include "overview/cause.h"

#include <algorithm>
#include <array>
#include <span>

namespace dovetail::app {
namespace {

using enum ProblemKind;

struct Sign {
  std::string_view text;  // part of an error
  ProblemKind kind;
};

// The first that is in the text decides. These say the same wherever they are met.
constexpr std::array kSigns = {
    Sign{"the disk is full", disk_full},        Sign{"No space left on device", disk_full},
    Sign{"server_login_retry", database_away},  // PgBouncer runs, and its server does not
    Sign{"query_wait_timeout", database_away},  Sign{"the clock was set", clock_step},
    Sign{"the clock may be wrong", clock_step}, Sign{"the lease ran out", lease_lost},
    Sign{"the lease is lost", lease_lost},      Sign{"has taken over", lease_lost},
};
// Of a broker that answers.
constexpr std::array kTopicSigns = {
    Sign{"no such topic", missing_topic}, Sign{"Unknown topic", missing_topic},
    Sign{"NO_ROUTE", missing_topic},      Sign{"no queue is bound", missing_topic},
    Sign{"no stream", missing_topic},     Sign{"no such exchange", missing_topic},
    Sign{"no such queue", missing_topic}, Sign{"no exchange", missing_topic},
};
// A place where there is nothing, if the text begins with what should be there.
constexpr std::array<std::string_view, 6> kNamesOfTopics = {"topic",  "queue",   "exchange",
                                                            "stream", "subject", "Topic"};
// How PostgreSQL and SQLite say that they are away.
constexpr std::array<std::string_view, 6> kDatabaseAway = {"cannot connect: ",
                                                           "connection to server",
                                                           "the connection is lost; check that",
                                                           "the server is shutting down",
                                                           "terminating connection",
                                                           "unable to open database file"};
constexpr std::array<std::string_view, 5> kMapping = {"column", "table", "mapping", "index",
                                                      "publication"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <class Signs>
bool contains_any(std::string_view text, const Signs& signs) {
  return std::any_of(signs.begin(), signs.end(),
                     [&](std::string_view sign) { return contains(text, sign); });
}

const Sign* sign_in(std::string_view text, std::span<const Sign> signs) {
  const auto found = std::find_if(signs.begin(), signs.end(),
                                  [&](const Sign& sign) { return contains(text, sign.text); });
  return found == signs.end() ? nullptr : &*found;
}

// A store with replication_url has a pooler, and this is its place.
bool is_pooler_down(std::string_view error, const config::StoreConfig& store) {
  return !store.replication_where.empty() && contains(error, "Connection refused");
}

bool lacks_a_topic(std::string_view error) {
  if (sign_in(error, kTopicSigns) != nullptr) return true;
  return contains(error, "does not exist") && contains_any(error, kNamesOfTopics);
}

}  // namespace

Cause cause_of(std::string_view error, bool is_halted, const config::Config& config,
               const config::StoreConfig& home, const config::RelayConfig* relay,
               bool is_consumer) {
  const ProblemKind otherwise = is_halted ? relay_halted : relay_backing_off;
  if (const Sign* sign = sign_in(error, kSigns)) return {sign->kind, &home};
  const config::StoreConfig* const from =
      relay == nullptr ? nullptr : config.find_store(relay->from);
  const config::StoreConfig* const to = relay == nullptr ? nullptr : config.find_store(relay->to);
  const config::StoreConfig* const broker = to != nullptr && to->is_broker()       ? to
                                            : from != nullptr && from->is_broker() ? from
                                                                                   : nullptr;
  // A relay has at most one broker, so what no database says comes from there.
  const bool is_of_database = contains_any(error, kDatabaseAway);
  if (is_of_database && !is_halted) {
    const bool is_targets = to != nullptr && !to->is_broker() && to != &home;
    const bool names_target = is_targets && contains(error, to->path.string());
    if (names_target && !to->path.empty()) return {database_away, to};
    return {is_pooler_down(error, home) ? pooler_down : database_away, &home};
  }
  if (broker != nullptr && lacks_a_topic(error)) return {missing_topic, broker};
  if (is_halted && relay != nullptr && home.tables.contains(relay->name) &&
      contains_any(error, kMapping))
    return {wrong_mapping, &home};
  if (is_halted) return {otherwise, nullptr};
  if (is_consumer && broker == nullptr) return {handler_failing, &home};
  if (is_consumer && !contains(error, "connect") && !contains(error, "Kafka at") &&
      !contains(error, "did not answer"))
    return {handler_failing, &home};
  if (broker != nullptr) return {broker_away, broker};
  return {otherwise, nullptr};
}

bool is_disk_full(std::string_view error) {
  const Sign* const sign = sign_in(error, kSigns);
  return sign != nullptr && sign->kind == disk_full;
}

ProblemKind cause_of_database(std::string_view error, const config::StoreConfig& store,
                              bool is_unavailable) {
  if (const Sign* sign = sign_in(error, kSigns)) return sign->kind;
  if (is_unavailable && is_pooler_down(error, store)) return pooler_down;
  return is_unavailable ? database_away : database_unusable;
}

}  // namespace dovetail::app
