#include "kafka/sink.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "kafka/admin.h"

namespace dovetail::kafka {

namespace {

constexpr std::size_t kBatchBytes = 1'000'000;
// How long batches stay at the size limit of a topic, or at one record.
constexpr Duration kTopicsBatches = std::chrono::minutes(10);
constexpr Duration kLoneRecords = std::chrono::minutes(1);
constexpr Duration kLoneAfterBlame = std::chrono::seconds(2);
constexpr Duration kAskTopicMax = std::chrono::seconds(1);
constexpr Duration kAskTopicAgain = std::chrono::milliseconds(250);
constexpr Duration kTroubleMax = std::chrono::seconds(30);  // the longest pause of a topic
constexpr Duration kReportsMax = std::chrono::seconds(1);   // after a batch ended the producer
constexpr Duration kBlameMax = std::chrono::minutes(1);
constexpr std::size_t kBlamedMax = 10'000;
// Much shorter than producer.id.expiration.ms, after which a broker forgets a producer.
constexpr Duration kForgetKeys = std::chrono::minutes(10);
constexpr Duration kPatience = std::chrono::seconds(1);  // of one submit()
// Long enough for a broker to restart, or for another one to lead its partitions.
constexpr std::size_t kTopicsMax = 10'000;

void* as_opaque(std::uint64_t tag) { return reinterpret_cast<void*>(tag); }
std::uint64_t tag_of(const rd_kafka_message_t& report) {
  return reinterpret_cast<std::uint64_t>(report._private);
}

// The minimum size of a record in its batch.
std::size_t bytes_of(const rd_kafka_message_t& report) { return report.len + report.key_len; }

std::uint64_t mix(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash ^ 0xffU) * 1099511628211U;  // where the text ends
}

// A final refusal, of this record or of another one in its batch.
bool is_refusal(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
         code == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
         code == RD_KAFKA_RESP_ERR_INVALID_RECORD || code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP ||
         code == RD_KAFKA_RESP_ERR_POLICY_VIOLATION;
}

// An operator can fix it; other topics are not affected.
bool is_of_topic(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
         code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
         code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION ||
         code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
}

std::string reason_of(rd_kafka_resp_err_t code, std::string_view topic) {
  std::string_view check = "check the topic's settings";
  if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
    check = "allow this user to write to it";
  else if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
           code == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE)
    check = "raise max.message.bytes of the topic, or make the event smaller";
  else if (code == RD_KAFKA_RESP_ERR_INVALID_RECORD)
    check = "a compacted topic accepts only events with a key";
  else if (is_of_topic(code))
    check = "create the topic with enough partitions for the partition template";
  return "topic " + std::string(topic) + ": " + rd_kafka_err2str(code) + "; " + std::string(check);
}

}  // namespace

KafkaSink::KafkaSink(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock), batch_bytes_(kBatchBytes) {}

KafkaSink::~KafkaSink() { disconnect(); }

void KafkaSink::disconnect() {
  // Topics and queue refer to the producer, so it goes last; that waits for its threads.
  topics_.clear();
  queue_.reset();
  if (producer_ != nullptr) {
    rd_kafka_purge(producer_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                        RD_KAFKA_PURGE_F_NON_BLOCKING);
  }
  producer_.reset();
  tracker_.clear();
  order_.clear();
  uncollected_ = 0;
  topic_bytes_max_.clear();
  connect_errors_.clear();
  fault_.reset();
  refused_at_ = {};
  down_since_ = {};
}

Status KafkaSink::open() {
  disconnect();
  if (!writer_) {
    auto writer = MessageWriter::make(options_.message, kKafkaDialect);
    if (!writer) return fail(writer.error());
    writer_ = std::move(*writer);
  }
  if (batch_bytes_ != kBatchBytes && clock_.now() >= batch_bytes_until_) batch_bytes_ = kBatchBytes;
  return open_producer();
}

Status KafkaSink::open_producer() {
  auto properties = properties_of(options_, Role::producer);
  if (!properties) return fail(properties.error());
  // The later value wins: the one of the options, unless a broker refused a larger batch.
  const auto place = batch_bytes_ == kBatchBytes ? properties->begin() : properties->end();
  properties->insert(place, {"batch.size", std::to_string(batch_bytes_)});
  opened_batch_bytes_ = batch_bytes_;
  auto configuration = make_configuration(*properties);
  if (!configuration) return fail(configuration.error());
  rd_kafka_conf_set_events(configuration->get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
  auto producer = make_client(Role::producer, std::move(*configuration));
  if (!producer) return fail(producer.error());
  producer_ = std::move(*producer);
  queue_.reset(rd_kafka_queue_get_main(producer_.get()));
  Status reached =
      wait_for_broker(producer_.get(), options_, connect_errors_, [this] { take_events(0); });
  if (!reached) disconnect();
  // Errors on the way to the connection no longer matter.
  connect_errors_.clear();
  down_since_ = {};
  return reached;
}

Status KafkaSink::submit(Events events) {
  if (producer_ == nullptr)
    return fail(Errc::unavailable, "Kafka: the sink is not open; call open() first");
  DOVETAIL_TRY(check_connection());
  // Larger batches again.
  if (opened_batch_bytes_ != kBatchBytes && uncollected_ == 0 && clock_.now() >= batch_bytes_until_)
    DOVETAIL_TRY(open());
  // A failure that is known must stop what is behind it.
  take_events(0);
  DOVETAIL_TRY(check_connection());
  patience_until_ = clock_.now() + kPatience;
  if (clock_.now() >= forget_at_) {
    order_.forget_idle_keys();
    forget_at_ = clock_.now() + kForgetKeys;
  }
  const std::uint64_t first = tracker_.add_batch(events.size());
  order_.add_batch(first, events);
  ++uncollected_;
  for (std::size_t i = 0; i < events.size(); ++i) DOVETAIL_TRY(send(first + i));
  return {};
}

void KafkaSink::refuse(std::uint64_t tag, Fate fate, std::string reason) {
  order_.failed(tag);
  tracker_.resolve(tag, Outcome{fate, 0, std::move(reason)});
}

// Where librdkafka keeps the order of what it sends. Without a record key, any partition is
// possible.
std::uint64_t KafkaSink::channel_of(std::uint64_t tag) const {
  if (partition_ != RD_KAFKA_PARTITION_UA)
    return mix(static_cast<std::uint64_t>(partition_), name_);
  if (message_.key.empty()) return KeyOrder::own_channel(tag);
  return mix(mix(14695981039346656037U, name_), message_.key);
}

std::string KafkaSink::blame_of(const Event& event) const {
  if (blamed_.empty()) return {};
  const auto found = blamed_.find(event.id);
  return found != blamed_.end() && clock_.now() < found->second.until ? found->second.why
                                                                      : std::string();
}

std::string KafkaSink::compose(const Event& event) {
  if (std::string why = blame_of(event); !why.empty()) return why;
  arena_.clear();
  if (Status written = writer_->write(event, arena_, message_); !written)
    return std::move(written.error().text);
  name_.assign(options_.topic_prefix).append(message_.topic);
  if (const std::string_view problem = topic_problem(name_); !problem.empty())
    return "invalid topic name: " + std::string(problem) + "; check the relay's topic template";
  partition_ = RD_KAFKA_PARTITION_UA;
  if (!message_.partition.empty()) {
    const char* const end = message_.partition.data() + message_.partition.size();
    const auto parsed = std::from_chars(message_.partition.data(), end, partition_);
    if (parsed.ec != std::errc() || parsed.ptr != end || partition_ < 0)
      return "the partition template must yield a non-negative integer";
  }
  std::size_t bytes = message_.payload.size() + message_.key.size();
  for (const MessageHeader& one : message_.headers) bytes += one.name.size() + one.value.size();
  if (bytes > options_.message_bytes_max)
    return "payload, key and headers have " + std::to_string(bytes) + " bytes, the limit is " +
           std::to_string(options_.message_bytes_max) +
           "; raise message_max and max.message.bytes of the topic";
  return {};
}

Status KafkaSink::send(std::uint64_t tag) {
  std::string why = compose(order_.event_of(tag));
  // What can never be sent is refused when its turn comes.
  const std::uint64_t channel = why.empty() ? channel_of(tag) : KeyOrder::own_channel(tag);
  switch (order_.place(tag, channel)) {
    case KeyOrder::Turn::now:
      break;
    case KeyOrder::Turn::later:
      return {};
    case KeyOrder::Turn::never:
      tracker_.resolve(tag,
                       Outcome{Fate::again, 0, "not sent: an earlier event of its key failed"});
      return {};
  }
  if (!why.empty()) {
    blamed_.erase(order_.event_of(tag).id);
    refuse(tag, Fate::rejected, std::move(why));
    return {};
  }
  const Result<Topic*> topic = find_topic(name_);
  if (!topic) return fail(topic.error());
  if (!(*topic)->is_there && clock_.now() >= (*topic)->ask_at) ask_for(**topic);
  if (!(*topic)->why.empty()) {
    refuse(tag, Fate::busy, (*topic)->why);
    return {};
  }
  if (const auto trouble = troubles_.find(name_);
      trouble != troubles_.end() && clock_.now() < trouble->second.until) {
    refuse(tag, Fate::busy, trouble->second.why);
    return {};
  }
  return produce(**topic, tag);
}

// Sends what waited for confirmations.
Status KafkaSink::send_due() {
  if (fault_) return {};
  patience_until_ = clock_.now() + kPatience;
  while (const std::optional<std::uint64_t> tag = order_.take_due()) DOVETAIL_TRY(send(*tag));
  return {};
}

// Refreshes librdkafka's own metadata, too. Without an answer in time, nothing changes.
void KafkaSink::ask_for(Topic& topic) {
  const Duration left = std::min<Duration>(kAskTopicMax, patience_until_ - clock_.now());
  if (left <= Duration{0}) return;
  const rd_kafka_metadata_t* told = nullptr;
  const rd_kafka_resp_err_t code =
      rd_kafka_metadata(producer_.get(), 0, topic.handle.get(), &told, to_milliseconds(left));
  topic.ask_at = clock_.now() + kAskTopicAgain;
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  const rd_kafka_resp_err_t state = told->topic_cnt == 1 ? told->topics[0].err : code;
  rd_kafka_metadata_destroy(told);
  topic.is_there = !is_of_topic(state);
  topic.why = topic.is_there ? "" : reason_of(state, rd_kafka_topic_name(topic.handle.get()));
}

Result<KafkaSink::Topic*> KafkaSink::find_topic(std::string_view name) {
  const auto known = topics_.find(name);
  if (known != topics_.end()) return &known->second;
  // Happens only with a template that puts a changing value into the topic's name.
  if (topics_.size() >= kTopicsMax)
    return fail(Errc::unavailable, "Kafka: more than " + std::to_string(kTopicsMax) +
                                       " topics; check the relay's topic template");
  std::string owned(name);
  Handle<rd_kafka_topic_s> topic(rd_kafka_topic_new(producer_.get(), owned.c_str(), nullptr));
  if (topic == nullptr)
    return fail(Errc::unavailable, "Kafka: librdkafka cannot open a topic: " +
                                       std::string(rd_kafka_err2str(rd_kafka_last_error())) +
                                       "; check the properties");
  return &topics_.emplace(std::move(owned), Topic{std::move(topic)}).first->second;
}

Status KafkaSink::produce(Topic& topic, std::uint64_t tag) {
  Handle<rd_kafka_headers_s> headers(rd_kafka_headers_new(message_.headers.size()));
  for (const MessageHeader& one : message_.headers)
    rd_kafka_header_add(headers.get(), one.name.data(), static_cast<ssize_t>(one.name.size()),
                        one.value.data(), static_cast<ssize_t>(one.value.size()));
  std::array<rd_kafka_vu_t, 7> parts{};
  parts[0].vtype = RD_KAFKA_VTYPE_RKT;
  parts[0].u.rkt = topic.handle.get();
  parts[1].vtype = RD_KAFKA_VTYPE_PARTITION;
  parts[1].u.i32 = partition_;
  parts[2].vtype = RD_KAFKA_VTYPE_VALUE;
  parts[2].u.mem.ptr = const_cast<char*>(message_.payload.data());
  parts[2].u.mem.size = message_.payload.size();
  parts[3].vtype = RD_KAFKA_VTYPE_KEY;
  parts[3].u.mem.ptr = message_.key.empty() ? nullptr : const_cast<char*>(message_.key.data());
  parts[3].u.mem.size = message_.key.size();
  parts[4].vtype = RD_KAFKA_VTYPE_HEADERS;
  parts[4].u.headers = headers.get();
  parts[5].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
  parts[5].u.i = RD_KAFKA_MSG_F_COPY;
  parts[6].vtype = RD_KAFKA_VTYPE_OPAQUE;
  parts[6].u.ptr = as_opaque(tag);
  for (;;) {
    rd_kafka_error_t* error = rd_kafka_produceva(producer_.get(), parts.data(), parts.size());
    if (error == nullptr) {
      (void)headers.release();  // the message owns them now
      return {};
    }
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    std::string text = rd_kafka_error_string(error);
    rd_kafka_error_destroy(error);
    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      // Confirmations make room.
      if (clock_.now() >= patience_until_) {
        refuse(tag, Fate::busy, "librdkafka's send queue is full; check that the brokers keep up");
        return {};
      }
      take_events(10);
      DOVETAIL_TRY(check_connection());
      continue;
    }
    if (is_of_topic(code)) {
      topic.is_there = false;
      refuse(tag, Fate::busy, reason_of(code, rd_kafka_topic_name(topic.handle.get())));
      return {};
    }
    give_up(Errc::in_doubt, std::move(text));
    return fail(*fault_);
  }
}

Result<bool> KafkaSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (producer_ == nullptr)
    return fail(Errc::unavailable, "Kafka: the sink is not open; call open() first");
  const TimePoint end = clock_.now() + timeout;
  for (;;) {
    DOVETAIL_TRY(send_due());
    if (tracker_.oldest_is_complete()) {
      tracker_.take_oldest(outcomes);
      order_.collected();
      --uncollected_;
      return true;
    }
    DOVETAIL_TRY(check_connection());
    const Duration left = std::max(Duration{0}, end - clock_.now());
    // Wakes up to notice that all brokers are gone.
    const bool came = take_events(to_milliseconds(std::min<Duration>(left, kDownMax)));
    if (!came && left == Duration{0}) return false;
  }
}

bool KafkaSink::take_events(int timeout_ms) {
  bool any = false;
  for (;;) {
    Handle<rd_kafka_op_s> event(rd_kafka_queue_poll(queue_.get(), any ? 0 : timeout_ms));
    if (event == nullptr) return any;
    any = true;
    if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_DR) {
      while (const rd_kafka_message_t* report = rd_kafka_event_message_next(event.get()))
        take_report(*report);
    } else if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_ERROR) {
      take_error(event.get());
    }
  }
}

void KafkaSink::take_report(const rd_kafka_message_s& report) {
  const std::uint64_t tag = tag_of(report);
  const char* const name = report.rkt == nullptr ? "?" : rd_kafka_topic_name(report.rkt);
  if (report.err == RD_KAFKA_RESP_ERR_NO_ERROR && report.offset < 0) {
    // librdkafka assumes that it is stored. Only the broker knows.
    give_up(Errc::in_doubt, "a broker confirmed an event without an offset");
  } else if (report.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    down_since_ = {};
    if (!troubles_.empty()) troubles_.erase(name);
    order_.confirmed(tag);
    tracker_.resolve(tag,
                     Outcome{.fate = Fate::confirmed, .place = {report.partition, report.offset}});
  } else if (report.err == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
             report.err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
             report.err == RD_KAFKA_RESP_ERR__FATAL) {
    return;  // the producer has ended; another report says why
  } else if (is_refusal(report.err)) {
    take_refusal(report, name);
  } else if (is_of_topic(report.err)) {
    note_trouble(name, reason_of(report.err, name));
    give_up(Errc::in_doubt, reason_of(report.err, name));
  } else {
    give_up(Errc::in_doubt, rd_kafka_err2str(report.err));
  }
}

// All records of a batch report the same, so only the first one after a pause counts.
void KafkaSink::note_trouble(const std::string& topic, std::string why) {
  if (troubles_.size() >= kTopicsMax) troubles_.clear();
  Trouble& trouble = troubles_[topic];
  if (clock_.now() < trouble.until) return;
  trouble.why = std::move(why);
  trouble.pause = std::clamp(2 * trouble.pause, kAskTopicAgain, kTroubleMax);
  trouble.until = clock_.now() + trouble.pause;
}

void KafkaSink::take_refusal(const rd_kafka_message_s& report, const char* topic) {
  const std::size_t bytes = std::max<std::size_t>(1, bytes_of(report));
  // The record was alone: a batch of this size takes no second one.
  if (bytes >= opened_batch_bytes_) {
    if (blamed_.size() >= kBlamedMax) blamed_.clear();
    const TimePoint now = clock_.now();
    blamed_[order_.event_of(tag_of(report)).id] = {reason_of(report.err, topic), now + kBlameMax};
    if (batch_bytes_ == 1) batch_bytes_until_ = std::min(batch_bytes_until_, now + kLoneAfterBlame);
    give_up(Errc::in_doubt, reason_of(report.err, topic));
    return;
  }
  std::size_t wanted = 1;
  Duration how_long = kLoneRecords;
  if (report.err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
    wanted = bytes;
    const std::size_t topic_max = topic_bytes_max(topic);
    if (topic_max > bytes && topic_max < opened_batch_bytes_) {
      wanted = topic_max;
      how_long = kTopicsBatches;
    }
  }
  batch_bytes_ = std::min(batch_bytes_, wanted);
  batch_bytes_until_ = clock_.now() + how_long;
  give_up(Errc::in_doubt, "topic " + std::string(topic) +
                              " refuses a batch of records: " + rd_kafka_err2str(report.err) +
                              "; the relay sends them again in smaller batches");
}

// max.message.bytes of the topic; 0: unknown.
std::size_t KafkaSink::topic_bytes_max(const std::string& topic) {
  const auto [known, is_new] = topic_bytes_max_.try_emplace(topic, 0);
  if (!is_new) return known->second;
  const auto settings = topic_settings(producer_.get(), topic, kAskTopicMax);
  if (!settings) return 0;
  const auto setting = settings->find("max.message.bytes");
  if (setting == settings->end()) return 0;
  const std::string& text = setting->second;
  std::from_chars(text.data(), text.data() + text.size(), known->second);
  return known->second;
}

void KafkaSink::take_error(rd_kafka_op_s* event) {
  rd_kafka_resp_err_t code = rd_kafka_event_error(event);
  const char* const said = rd_kafka_event_error_string(event);
  if (code == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_event_error_is_fatal(event) != 0) {
    std::array<char, 512> why{};
    code = rd_kafka_fatal_error(producer_.get(), why.data(), why.size());
    // The reports of the refused batch say more.
    if (code == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE) {
      refused_at_ = clock_.now();
      return;
    }
    give_up(Errc::in_doubt, std::string("the producer failed: ") + why.data());
    return;
  }
  connect_errors_.note(code, said == nullptr ? rd_kafka_err2str(code) : said);
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && down_since_ == TimePoint{})
    down_since_ = clock_.now();
}

void KafkaSink::give_up(Errc code, std::string text) {
  if (fault_) return;
  fault_ =
      Error{code, "Kafka at " + options_.brokers + ": " + std::move(text) +
                      "; the relay replaces the producer; check the brokers if this happens often"};
}

// An error if the producer can no longer be used.
Status KafkaSink::check_connection() {
  if (refused_at_ != TimePoint{} && clock_.now() - refused_at_ >= kReportsMax)
    give_up(Errc::in_doubt, "a broker refused a batch of records");
  if (fault_) return fail(*fault_);
  if (tracker_.unresolved() == 0) return {};
  if (connect_errors_.is_final())
    return fail(connection_error(options_, connect_errors_.code(), connect_errors_.text()));
  if (down_since_ != TimePoint{} && clock_.now() - down_since_ >= kDownMax)
    return fail(connection_error(options_, connect_errors_.code(), connect_errors_.text()));
  return {};
}

}  // namespace dovetail::kafka
