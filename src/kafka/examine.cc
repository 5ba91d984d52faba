#include "kafka/examine.h"

#include <regex.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "kafka/admin.h"
#include "kafka/client.h"

namespace dovetail::kafka {

namespace {

constexpr std::size_t kReplicas = 3;
constexpr std::int64_t kInSync = 2;
constexpr std::size_t kBrokersMax = 10;
constexpr std::size_t kTopicsMax = 200;

std::int64_t number_of(const Settings& settings, std::string_view name, std::int64_t otherwise) {
  const auto found = settings.find(name);
  if (found == settings.end()) return otherwise;
  std::int64_t value = otherwise;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

bool is_on(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found != settings.end() && found->second == "true";
}

Result<Handle<rd_kafka_s>> connect(const Options& options) {
  auto properties = properties_of(options, Role::admin);
  if (!properties) return fail(properties.error());
  auto configuration = make_configuration(*properties);
  if (!configuration) return fail(configuration.error());
  auto client = make_client(Role::admin, std::move(*configuration));
  if (!client) return fail(client.error());
  ConnectErrors connect_errors;
  DOVETAIL_TRY(wait_for_broker(client->get(), options, connect_errors, [] {}));
  return client;
}

// Empty: without limit. A compacted topic keeps the last event of each key.
std::optional<Duration> kept_for(const Settings& settings) {
  const auto policy = settings.find("cleanup.policy");
  if (policy != settings.end() && policy->second.find("delete") == std::string::npos)
    return std::nullopt;
  const std::int64_t ms = number_of(settings, "retention.ms", -1);
  if (ms < 0) return std::nullopt;
  return std::chrono::milliseconds(std::min(ms, std::numeric_limits<std::int64_t>::max() / 1000));
}

// A POSIX regular expression, the syntax of librdkafka.
class Pattern {
 public:
  explicit Pattern(const std::string& text)
      : is_valid_(regcomp(&pattern_, text.c_str(), REG_EXTENDED | REG_NOSUB) == 0) {}
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    if (is_valid_) regfree(&pattern_);
  }

  // False for every name if librdkafka would reject the pattern, too.
  bool matches(const std::string& name) const {
    return is_valid_ && regexec(&pattern_, name.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t pattern_{};
  bool is_valid_;
};

// A name, or a pattern that begins with '^'.
bool is_named(const std::string& topic, const Options& options, std::string_view name) {
  if (!topic.starts_with('^')) return name == options.topic_prefix + topic;
  return Pattern("^" + options.topic_prefix + topic.substr(1)).matches(std::string(name));
}

class Examination {
 public:
  explicit Examination(const Examined& what) : what_(what) {}

  Result<std::vector<Finding>> run() {
    auto client = connect(what_.options);
    if (!client) return fail(client.error());
    client_ = std::move(*client);
    auto shape = cluster_shape(client_.get(), what_.options.connect_timeout);
    if (!shape) return fail(shape.error());
    look_at_options();
    look_at_brokers(*shape);
    look_at_topics(*shape);
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string code, std::string text, std::string what_to_do) {
    findings_.push_back({severity, std::move(code), std::move(text), std::move(what_to_do)});
  }

  // The size of the outboxes' largest event as a message; 0: unknown.
  std::size_t message_bytes() const {
    return what_.payload_bytes_max == 0 ? 0 : what_.payload_bytes_max + kMessageOverheadMax;
  }

  void look_at_options() {
    if (what_.options.message_bytes_max < message_bytes())
      add(Severity::warning, "message-bytes",
          "an outbox accepts payloads of " + std::to_string(what_.payload_bytes_max) +
              " bytes, but message_max is " + std::to_string(what_.options.message_bytes_max) +
              ", with key and headers",
          "raise message_max of the store and max.message.bytes of its topics, or lower "
          "payload_max of the outbox");
  }

  void look_at_brokers(const ClusterShape& shape) {
    if (!what_.options.single_node && shape.brokers.size() < kReplicas)
      add(Severity::warning, "few-brokers",
          std::to_string(shape.brokers.size()) +
              (shape.brokers.size() == 1 ? " broker" : " brokers") +
              ": losing one loses events or causes an outage",
          "run 3 brokers or more; for a test machine set single_node = true");
    for (std::size_t i = 0; i < std::min(kBrokersMax, shape.brokers.size()); ++i) {
      const std::string name = "broker " + std::to_string(shape.brokers[i]);
      auto settings =
          broker_settings(client_.get(), shape.brokers[i], what_.options.connect_timeout);
      if (!settings) {
        add(Severity::note, "settings-unreadable", settings.error().text,
            "allow this user to describe the configuration of the cluster");
        continue;
      }
      if (is_on(*settings, "auto.create.topics.enable"))
        add(Severity::warning, "auto-created-topics",
            name +
                " creates a topic for every misspelled name, with the default number of partitions",
            "set auto.create.topics.enable=false on every broker");
      if (is_on(*settings, "unclean.leader.election.enable"))
        add(Severity::error, "unclean-election",
            name + " may elect a replica that lags behind: confirmed events are then lost",
            "set unclean.leader.election.enable=false on every broker");
      const std::int64_t offsets_minutes = number_of(*settings, "offsets.retention.minutes", 10080);
      if (what_.is_read && offsets_minutes < std::int64_t{24} * 60)
        add(Severity::warning, "offsets-expire",
            name + " forgets the offsets of a group after " + std::to_string(offsets_minutes) +
                " minutes without a member: the group then starts over",
            "set offsets.retention.minutes to a week or more");
    }
  }

  bool is_written(std::string_view name) const {
    const std::string& prefix = what_.options.topic_prefix;
    if (!name.starts_with(prefix)) return false;
    return std::any_of(what_.written.begin(), what_.written.end(), [&](const std::string& pattern) {
      return matches(pattern, name.substr(prefix.size()));
    });
  }
  bool is_read(std::string_view name) const {
    if (!what_.is_read) return false;
    const auto& topics = what_.options.topics;
    return std::any_of(topics.begin(), topics.end(), [&](const std::string& topic) {
      return name == what_.options.topic_prefix + topic;
    });
  }

  void look_at_topics(const ClusterShape& shape) {
    std::size_t looked_at = 0;
    for (const TopicShape& topic : shape.topics) {
      if (!is_written(topic.name) && !is_read(topic.name)) continue;
      if (++looked_at <= kTopicsMax) look_at_topic(topic);
    }
    const auto known = [&](const std::string& name) {
      return std::any_of(shape.topics.begin(), shape.topics.end(),
                         [&](const TopicShape& one) { return one.name == name; });
    };
    std::vector<std::string> named =
        what_.is_read ? what_.options.topics : std::vector<std::string>{};
    for (const std::string& one : what_.written)
      if (one.find('*') == std::string::npos) named.push_back(one);
    for (const std::string& one : named) {
      const std::string name = what_.options.topic_prefix + one;
      if (one.starts_with('^') || known(name)) continue;
      add(Severity::error, "topic-missing",
          "topic " + name + " does not exist, or this user may not see it",
          "create it with its partitions and replicas; dovetail creates no topics");
    }
  }

  void look_at_topic(const TopicShape& topic) {
    const std::string name = "topic " + topic.name;
    if (!what_.options.single_node && topic.replicas_min < kReplicas)
      add(Severity::error, "replication-factor",
          name + " has a replication factor of " + std::to_string(topic.replicas_min),
          "give it a replication factor of 3");
    auto settings = topic_settings(client_.get(), topic.name, what_.options.connect_timeout);
    if (!settings) {
      add(Severity::note, "settings-unreadable", settings.error().text,
          "allow this user to describe the configuration of the topic");
      return;
    }
    const std::int64_t in_sync = number_of(*settings, "min.insync.replicas", 1);
    if (!what_.options.single_node && in_sync < kInSync)
      add(Severity::error, "min-insync-replicas",
          name + " confirms an event that only " + std::to_string(in_sync) +
              " replica has: losing that replica loses events",
          "set min.insync.replicas=2 on the topic");
    if (is_on(*settings, "unclean.leader.election.enable"))
      add(Severity::error, "unclean-election",
          name + " may elect a replica that lags behind: confirmed events are then lost",
          "set unclean.leader.election.enable=false on the topic");
    look_at_retention(name, *settings);
    if (is_written(topic.name)) look_at_size(name, number_of(*settings, "max.message.bytes", 0));
  }

  void look_at_size(const std::string& name, std::int64_t taken) {
    if (taken < static_cast<std::int64_t>(message_bytes()))
      add(Severity::warning, "topic-bytes",
          name + " accepts messages of " + std::to_string(taken) +
              " bytes, but an outbox accepts payloads of " +
              std::to_string(what_.payload_bytes_max) + " bytes: events that do not fit are parked",
          "raise max.message.bytes of the topic, or lower payload_max of the outbox");
    else if (taken < static_cast<std::int64_t>(what_.options.message_bytes_max))
      add(Severity::note, "topic-bytes",
          name + " accepts less than message_max: larger events are parked",
          "raise max.message.bytes of the topic, or lower message_max");
  }

  void look_at_retention(const std::string& name, const Settings& settings) {
    const auto policy = settings.find("cleanup.policy");
    const bool compacts =
        policy != settings.end() && policy->second.find("compact") != std::string::npos;
    if (compacts)
      add(Severity::warning, "compacted",
          name + " keeps only the last event of each key: a late reader misses the others",
          "set cleanup.policy=delete, unless each event carries the whole state");
    if (!what_.inbox_retention) return;
    const std::optional<Duration> kept = kept_for(settings);
    if (kept && *kept <= *what_.inbox_retention) return;
    add(Severity::warning, "retention-over-inbox",
        name + " keeps events " +
            (kept ? std::to_string(std::chrono::floor<std::chrono::hours>(*kept).count()) + " hours"
                  : std::string("for ever")) +
            ", longer than inboxes remember them: events that are read again from the start are "
            "parked",
        "make retention.inbox longer than retention.ms of the topic");
  }

  const Examined& what_;
  Handle<rd_kafka_s> client_;
  std::vector<Finding> findings_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (std::size_t i = 0; i <= name.size(); ++i)
    if (matches(pattern, name.substr(i))) return true;
  return false;
}

Result<std::vector<Kept>> retention(const Options& options) {
  const auto client = connect(options);
  if (!client) return fail(client.error());
  const auto shape = cluster_shape(client->get(), options.connect_timeout);
  if (!shape) return fail(shape.error());
  std::vector<Kept> kept;
  for (const TopicShape& topic : shape->topics) {
    if (std::none_of(options.topics.begin(), options.topics.end(), [&](const std::string& named) {
          return is_named(named, options, topic.name);
        }))
      continue;
    const auto settings = topic_settings(client->get(), topic.name, options.connect_timeout);
    if (!settings) return fail(settings.error());
    kept.push_back({"topic " + topic.name, kept_for(*settings)});
  }
  return kept;
}

Result<std::vector<Finding>> examine(const Examined& what) { return Examination(what).run(); }

}  // namespace dovetail::kafka
