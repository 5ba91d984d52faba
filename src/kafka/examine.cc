#include "kafka/examine.h"

#include <regex.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "core/findings.h"
#include "kafka/admin.h"
#include "kafka/client.h"

namespace dovetail::kafka {

namespace {

using F = const Facts&;

constexpr std::size_t kBrokersMax = 10;
constexpr std::size_t kLookedAtMax = 200;

// Settings that the cluster does not tell.
constexpr std::int64_t kOffsetsMinutes = 10'080;
constexpr std::int64_t kDayMinutes = 24 * 60;

bool is_elected_unclean(F f) { return f.is("unclean.leader.election.enable"); }

// Facts: the options. `wanted`: the outboxes' largest event as a message; 0: not known.
constexpr Check kCluster[] = {
    {Severity::warning, "message-bytes",
     [](F f) { return f.number("message_bytes_max") < f.number("wanted"); },
     "an outbox accepts payloads of {payload_bytes_max} bytes, but message_max is "
     "{message_bytes_max}, with key and headers",
     "raise message_max of the store and max.message.bytes of its topics, or lower payload_max of "
     "the outbox"},
    {Severity::warning, "few-brokers",
     [](F f) { return !f.is("single_node") && f.number("brokers") < 3; },
     "{brokers:broker|brokers}: losing one loses events or causes an outage",
     "run 3 brokers or more; for a test machine set single_node = true"},
};

// Facts: settings as Kafka calls them.
constexpr Check kBroker[] = {
    {Severity::note, "settings-unreadable", [](F f) { return f.has("error"); }, "{error}",
     "allow this user to describe the configuration of the cluster"},
    {Severity::warning, "auto-created-topics",
     [](F f) { return f.is("auto.create.topics.enable"); },
     "broker {broker} creates a topic for every misspelled name, with the default number of "
     "partitions",
     "set auto.create.topics.enable=false on every broker"},
    {Severity::error, "unclean-election", is_elected_unclean,
     "broker {broker} may elect a replica that lags behind: confirmed events are then lost",
     "set unclean.leader.election.enable=false on every broker"},
    {Severity::warning, "offsets-expire",
     [](F f) {
       return f.is("is_read") &&
              f.number("offsets.retention.minutes", kOffsetsMinutes) < kDayMinutes;
     },
     "broker {broker} forgets the offsets of a group after {offsets.retention.minutes} minutes "
     "without a member: the group then starts over",
     "set offsets.retention.minutes to a week or more"},
};

constexpr Check kTopicMissing{
    Severity::error, "topic-missing", nullptr,
    "topic {topic} does not exist, or this user may not see it",
    "create it with its partitions and replicas; dovetail creates no topics"};
// `kept`: how long; missing: for ever. `remembered`: by inboxes; missing: for ever.
bool is_too_small(F f) { return f.number("max.message.bytes") < f.number("wanted"); }
bool outlives_inbox(F f) {
  return f.has("remembered") && (!f.has("kept") || f.number("kept") > f.number("remembered"));
}
constexpr std::string_view kRemember = "make retention.inbox longer than retention.ms of the topic";
constexpr Check kReplication{Severity::error, "replication-factor",
                             [](F f) { return !f.is("single_node") && f.number("replicas") < 3; },
                             "topic {topic} has a replication factor of {replicas}",
                             "give it a replication factor of 3"};
constexpr Check kTopicUnreadable{Severity::note, "settings-unreadable", nullptr, "{error}",
                                 "allow this user to describe the configuration of the topic"};
constexpr Check kTopic[] = {
    {Severity::error, "min-insync-replicas",
     [](F f) { return !f.is("single_node") && f.number("min.insync.replicas") < 2; },
     "topic {topic} confirms an event that only {min.insync.replicas} replica has: losing that "
     "replica loses events",
     "set min.insync.replicas=2 on the topic"},
    {Severity::error, "unclean-election", is_elected_unclean,
     "topic {topic} may elect a replica that lags behind: confirmed events are then lost",
     "set unclean.leader.election.enable=false on the topic"},
    {Severity::warning, "compacted",
     [](F f) { return f.text("cleanup.policy").find("compact") != std::string_view::npos; },
     "topic {topic} keeps only the last event of each key: a late reader misses the others",
     "set cleanup.policy=delete, unless each event carries the whole state"},
    {Severity::warning, "retention-over-inbox",
     [](F f) { return outlives_inbox(f) && f.has("kept"); },
     "topic {topic} keeps events {kept:age}, longer than inboxes remember them: events that are "
     "read again from the start are parked",
     kRemember},
    {Severity::warning, "retention-over-inbox",
     [](F f) { return outlives_inbox(f) && !f.has("kept"); },
     "topic {topic} keeps events for ever, longer than inboxes remember them: events that are read "
     "again from the start are parked",
     kRemember},
    {Severity::warning, "topic-bytes", [](F f) { return f.is("is_written") && is_too_small(f); },
     "topic {topic} accepts messages of {max.message.bytes} bytes, but an outbox accepts payloads "
     "of {payload_bytes_max} bytes: events that do not fit are parked",
     "raise max.message.bytes of the topic, or lower payload_max of the outbox"},
    {Severity::note, "topic-bytes",
     [](F f) {
       return f.is("is_written") && !is_too_small(f) &&
              f.number("max.message.bytes") < f.number("message_bytes_max");
     },
     "topic {topic} accepts less than message_max: larger events are parked",
     "raise max.message.bytes of the topic, or lower message_max"},
};

void add_settings(const Settings& settings, Facts& facts) {
  for (const auto& [name, value] : settings) facts.set(name, std::string_view(value));
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
std::optional<Duration> kept_for(const Facts& settings) {
  const std::string_view policy = settings.text("cleanup.policy");
  if (!policy.empty() && policy.find("delete") == std::string_view::npos) return std::nullopt;
  const std::int64_t ms = settings.number("retention.ms", -1);
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
  explicit Examination(const Examined& what) : what_(what) {
    const std::size_t payload = what_.payload_bytes_max;
    known_.set("single_node", what_.options.single_node)
        .set("message_bytes_max", what_.options.message_bytes_max)
        .set("payload_bytes_max", payload)
        .set("wanted", payload == 0 ? 0 : payload + kMessageOverheadMax)
        .set("is_read", what_.is_read);
    if (what_.inbox_retention) known_.set("remembered", *what_.inbox_retention);
  }

  Result<std::vector<Finding>> run() {
    auto client = connect(what_.options);
    if (!client) return fail(client.error());
    client_ = std::move(*client);
    auto shape = cluster_shape(client_.get(), what_.options.connect_timeout);
    if (!shape) return fail(shape.error());
    findings_.check(kCluster, Facts(known_).set("brokers", shape->brokers.size()));
    look_at_brokers(*shape);
    look_at_topics(*shape);
    return findings_.take();
  }

 private:
  void look_at_brokers(const ClusterShape& shape) {
    for (std::size_t i = 0; i < std::min(kBrokersMax, shape.brokers.size()); ++i) {
      const auto settings =
          broker_settings(client_.get(), shape.brokers[i], what_.options.connect_timeout);
      Facts facts = known_;
      facts.set("broker", shape.brokers[i]);
      if (settings)
        add_settings(*settings, facts);
      else
        facts.set("error", settings.error().text);
      findings_.check(kBroker, facts);
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
      if (++looked_at <= kLookedAtMax) look_at_topic(topic);
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
      findings_.add(kTopicMissing, Facts().set("topic", name));
    }
  }

  void look_at_topic(const TopicShape& topic) {
    Facts facts = known_;
    facts.set("topic", topic.name).set("replicas", topic.replicas_min);
    findings_.check({&kReplication, 1}, facts);
    const auto settings = topic_settings(client_.get(), topic.name, what_.options.connect_timeout);
    if (!settings) {
      findings_.add(kTopicUnreadable, facts.set("error", settings.error().text));
      return;
    }
    facts.set("min.insync.replicas", 1).set("is_written", is_written(topic.name));
    add_settings(*settings, facts);
    if (const auto kept = kept_for(facts)) facts.set("kept", *kept);
    findings_.check(kTopic, facts);
  }

  const Examined& what_;
  Handle<rd_kafka_s> client_;
  Facts known_;
  Findings findings_;
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
    Facts facts;
    add_settings(*settings, facts);
    kept.push_back({"topic " + topic.name, kept_for(facts)});
  }
  return kept;
}

Result<std::vector<Finding>> examine(const Examined& what) { return Examination(what).run(); }

}  // namespace dovetail::kafka
