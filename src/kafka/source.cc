#include "kafka/source.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cstring>

#include "host/host.h"

namespace dovetail::kafka {

namespace {

// A wait checks for a stop request this often.
constexpr Duration kSlice = std::chrono::milliseconds(50);
constexpr Duration kAnswerMax = std::chrono::seconds(10);
// Long enough for a broker to restart, or for another one to lead its partitions.

// The group rebalances: the next owner of the partition reads from the last commit.
bool is_of_rebalance(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION ||
         code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
         code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS ||
         code == RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST || code == RD_KAFKA_RESP_ERR__NO_OFFSET;
}

bool is_cooperative(rd_kafka_t* consumer) {
  // Null while the consumer closes.
  const char* const protocol = rd_kafka_rebalance_protocol(consumer);
  return protocol != nullptr && std::strcmp(protocol, "COOPERATIVE") == 0;
}

}  // namespace

// librdkafka calls both in the polling thread.
struct KafkaSource::Callbacks {
  static void rebalance(rd_kafka_t* client, rd_kafka_resp_err_t code,
                        rd_kafka_topic_partition_list_t* list, void* opaque) {
    auto& source = *static_cast<KafkaSource*>(opaque);
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) return source.assign(list);
    if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) return source.revoke(list);
    rd_kafka_assign(client, nullptr);
  }

  static void error(rd_kafka_t*, int code, const char* text, void* opaque) {
    auto& source = *static_cast<KafkaSource*>(opaque);
    source.connect_errors_.note(code, text);
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && source.down_since_ == TimePoint{})
      source.down_since_ = source.clock_.now();
  }
};

KafkaSource::KafkaSource(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock), decoder_(options_) {}

KafkaSource::~KafkaSource() { close(); }

void KafkaSource::close() {
  held_.reset();
  if (consumer_ != nullptr) {
    closing_ = true;
    // Without a reachable broker there is no group to leave.
    const bool down = down_since_ != TimePoint{} || connect_errors_.is_final();
    if (!down) rd_kafka_consumer_close(consumer_.get());
    rd_kafka_destroy_flags(consumer_.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    closing_ = false;
  }
  readings_.clear();
  partitions_.clear();
  commit_due_ = false;
  fault_.reset();
  connect_errors_.clear();
  down_since_ = {};
}

Status KafkaSource::open() {
  close();
  if (options_.group.empty())
    return fail(Errc::rejected, "Kafka: the source needs a consumer group; set group");
  if (options_.topics.empty())
    return fail(Errc::rejected, "Kafka: the source needs topics; set read");
  auto properties = properties_of(options_, Role::consumer);
  if (!properties) return fail(properties.error());
  auto configuration = make_configuration(*properties);
  if (!configuration) return fail(configuration.error());
  rd_kafka_conf_set_opaque(configuration->get(), this);
  rd_kafka_conf_set_rebalance_cb(configuration->get(), Callbacks::rebalance);
  rd_kafka_conf_set_error_cb(configuration->get(), Callbacks::error);
  auto consumer = make_client(Role::consumer, std::move(*configuration));
  if (!consumer) return fail(consumer.error());
  consumer_ = std::move(*consumer);
  Status opened = wait_for_broker(consumer_.get(), options_, connect_errors_,
                                  [this] { rd_kafka_poll(consumer_.get(), 0); });
  if (opened) opened = subscribe();
  if (!opened) {
    close();
    return opened;
  }
  connect_errors_.clear();
  down_since_ = {};
  return {};
}

Status KafkaSource::subscribe() {
  rd_kafka_poll_set_consumer(consumer_.get());
  const auto count = static_cast<int>(options_.topics.size());
  const Handle<rd_kafka_topic_partition_list_s> list(rd_kafka_topic_partition_list_new(count));
  for (const std::string& topic : options_.topics) {
    const bool is_pattern = topic.starts_with('^');
    const std::string name =
        is_pattern ? "^" + options_.topic_prefix + topic.substr(1) : options_.topic_prefix + topic;
    if (const std::string_view problem = topic_problem(name); !is_pattern && !problem.empty())
      return fail(Errc::rejected, "Kafka: invalid topic name " + name + ": " +
                                      std::string(problem) + "; check read");
    rd_kafka_topic_partition_list_add(list.get(), name.c_str(), RD_KAFKA_PARTITION_UA);
  }
  const rd_kafka_resp_err_t code = rd_kafka_subscribe(consumer_.get(), list.get());
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::rejected, std::string("Kafka: librdkafka rejects the topics: ") +
                                    rd_kafka_err2str(code) + "; check read");
  return {};
}

KafkaSource::Partition& KafkaSource::partition_of(const char* topic, std::int32_t number) {
  Partition& found = partitions_[{topic, number}];
  if (found.topic.empty()) {
    found.topic = topic;
    found.number = number;
  }
  return found;
}

void KafkaSource::assign(rd_kafka_topic_partition_list_s* list) {
  Status chosen = choose_offsets(list);
  if (!chosen) {
    fault_ = chosen.error();
    rd_kafka_assign(consumer_.get(), nullptr);
    return;
  }
  if (is_cooperative(consumer_.get())) {
    if (rd_kafka_error_t* error = rd_kafka_incremental_assign(consumer_.get(), list)) {
      fault_ = Error{Errc::unavailable, std::string("Kafka: cannot take over partitions: ") +
                                            rd_kafka_error_string(error) + "; check the group"};
      rd_kafka_error_destroy(error);
    }
    return;
  }
  rd_kafka_assign(consumer_.get(), list);
}

Status KafkaSource::choose_offsets(rd_kafka_topic_partition_list_s* list) {
  if (list->cnt == 0) return {};
  const rd_kafka_resp_err_t code =
      rd_kafka_committed(consumer_.get(), list, to_milliseconds(kAnswerMax));
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::unavailable, std::string("Kafka: cannot read the offsets of the group: ") +
                                       rd_kafka_err2str(code) + "; check the brokers");
  for (int i = 0; i < list->cnt; ++i) {
    rd_kafka_topic_partition_t& one = list->elems[i];
    if (one.err != RD_KAFKA_RESP_ERR_NO_ERROR)
      return fail(Errc::unavailable, "Kafka: cannot read the offset of " +
                                         partition_name(one.topic, one.partition) + ": " +
                                         rd_kafka_err2str(one.err) + "; check the brokers");
    Partition& partition = partition_of(one.topic, one.partition);
    partition.assigned = true;
    if (one.offset >= 0) partition.committed = one.offset;
    const std::int64_t from = std::max(partition.committed, partition.next);
    if (from >= 0) {
      partition.settled = std::max(partition.settled, partition.committed);
      one.offset = from;
      if (options_.skip_deleted) DOVETAIL_TRY(skip_deleted(partition, one.offset));
    } else if (options_.from_end) {
      DOVETAIL_TRY(begin_at_end(partition, one.offset));
    } else {
      one.offset = RD_KAFKA_OFFSET_BEGINNING;
    }
  }
  return {};
}

Status KafkaSource::skip_deleted(Partition& partition, std::int64_t& offset) {
  auto ends = ends_of(partition);
  if (!ends) return fail(ends.error());
  if (offset >= ends->low && offset <= ends->high) return {};
  offset = ends->low;
  partition.next = partition.settled = ends->low;
  return {};
}

// Commits the current end at once, so a restart does not skip the events that follow.
Status KafkaSource::begin_at_end(Partition& partition, std::int64_t& offset) {
  auto ends = ends_of(partition);
  if (!ends) return fail(ends.error());
  offset = ends->high;
  partition.settled = ends->high;
  return commit({&partition});
}

Result<KafkaSource::Ends> KafkaSource::ends_of(const Partition& partition) {
  Ends ends;
  const rd_kafka_resp_err_t code =
      rd_kafka_query_watermark_offsets(consumer_.get(), partition.topic.c_str(), partition.number,
                                       &ends.low, &ends.high, to_milliseconds(kAnswerMax));
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return ends;
  return fail(Errc::unavailable, "Kafka: cannot read the range of offsets in " +
                                     partition_name(partition.topic, partition.number) + ": " +
                                     rd_kafka_err2str(code) + "; check the brokers");
}

void KafkaSource::revoke(rd_kafka_topic_partition_list_s* list) {
  std::vector<Partition*> settled;
  for (int i = 0; i < list->cnt; ++i) {
    Partition& one = partition_of(list->elems[i].topic, list->elems[i].partition);
    if (one.assigned && one.settled > one.committed) settled.push_back(&one);
  }
  // A failure only causes duplicates.
  if (!closing_ && rd_kafka_assignment_lost(consumer_.get()) == 0) (void)commit(settled);
  for (int i = 0; i < list->cnt; ++i)
    partition_of(list->elems[i].topic, list->elems[i].partition).assigned = false;
  // The next owner of its partition reads it again.
  if (held_ != nullptr && !partition_of(rd_kafka_topic_name(held_->rkt), held_->partition).assigned)
    held_.reset();
  if (is_cooperative(consumer_.get())) {
    if (rd_kafka_error_t* error = rd_kafka_incremental_unassign(consumer_.get(), list))
      rd_kafka_error_destroy(error);
    return;
  }
  rd_kafka_assign(consumer_.get(), nullptr);
}

Status KafkaSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  if (consumer_ == nullptr)
    return fail(Errc::unavailable, "Kafka: the source is not open; call open() first");
  if (commit_due_) DOVETAIL_TRY(flush());
  const TimePoint end = clock_.now() + limits.wait_max;
  const std::size_t bytes_before = out.bytes();
  Reading reading;
  while (reading.events < limits.events_max && !fault_) {
    const bool first = reading.events == 0;
    Handle<rd_kafka_message_s> message =
        held_ != nullptr ? std::move(held_) : next_message(first ? end : TimePoint{}, stop);
    if (message == nullptr) break;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (Status known = take_error(*message); !known) fault_ = known.error();
      continue;
    }
    const std::size_t bytes = out.bytes() - bytes_before + bytes_of(*message);
    if (!first && bytes > limits.bytes_max) {
      held_ = std::move(message);
      break;
    }
    DOVETAIL_TRY(take(*message, out, reading));
  }
  if (reading.events > 0) {
    // The next call reports an error.
    down_since_ = {};
    readings_.push_back(std::move(reading));
    return {};
  }
  if (fault_) return fail(*fault_);
  return check_connection();
}

// Null: nothing came until `end`, or a stop was requested.
Handle<rd_kafka_message_s> KafkaSource::next_message(TimePoint end, std::stop_token stop) {
  for (;;) {
    const Duration left = std::max(Duration{0}, end - clock_.now());
    Handle<rd_kafka_message_s> message(
        rd_kafka_consumer_poll(consumer_.get(), to_milliseconds(std::min(left, kSlice))));
    if (message != nullptr) return message;
    if (left == Duration{0} || stop.stop_requested() || fault_) return nullptr;
  }
}

std::size_t KafkaSource::bytes_of(const rd_kafka_message_s& message) const {
  std::size_t bytes = message.len + message.key_len;
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return bytes;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i)
    bytes += size;
  return bytes;
}

Status KafkaSource::take(const rd_kafka_message_s& message, Batch& out, Reading& reading) {
  const char* const topic = rd_kafka_topic_name(message.rkt);
  Partition& partition = partition_of(topic, message.partition);
  // Already read: its partition left and came back.
  if (message.offset < partition.next) return {};
  decoder_.read(message, out);

  partition.next = message.offset + 1;
  ++reading.events;
  for (Piece& piece : reading.pieces) {
    if (piece.partition != &partition) continue;
    piece.end = partition.next;
    return {};
  }
  reading.pieces.push_back({&partition, partition.next});
  return {};
}

Status KafkaSource::take_error(const rd_kafka_message_s& message) {
  switch (message.err) {
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
    case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:  // the next poll joins the group again
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
      return {};
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
      return offset_lost(message);
    default:
      break;
  }
  std::string_view check = "check the group and the brokers";
  if (message.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
      message.err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
    check = "create the topic, or take it out of read";
  else if (message.err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
    check = "allow this user to read the topic";
  else if (message.err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
    check = "allow this user to use the group";
  return fail(Errc::unavailable, std::string("Kafka: cannot read: ") +
                                     rd_kafka_message_errstr(&message) + "; " + std::string(check));
}

// The topic does not have the offset at which the group must continue.
Status KafkaSource::offset_lost(const rd_kafka_message_s& message) {
  const Partition& partition = partition_of(rd_kafka_topic_name(message.rkt), message.partition);
  const std::string name = partition_name(partition.topic, partition.number);
  auto ends = ends_of(partition);
  if (!ends) return fail(ends.error());
  const std::int64_t wanted = std::max(partition.next, partition.committed);
  const std::string text = "Kafka: " + name + " must be read from offset " +
                           std::to_string(wanted) + ", but has only " + std::to_string(ends->low) +
                           " to " + std::to_string(ends->high);
  // After the next open() it starts at the oldest event.
  if (options_.skip_deleted || (wanted >= ends->low && wanted <= ends->high))
    return fail(Errc::unavailable, text + "; check the topic's retention");
  return fail(Errc::corrupt, text +
                                 ": events were deleted before they were read; check the topic's "
                                 "retention, and set skip_deleted to continue without them");
}

Status KafkaSource::settle(const Batch& batch, std::span<const Settled>) {
  if (batch.empty()) return {};
  if (readings_.empty() || readings_.front().events != batch.size())
    return fail(Errc::corrupt,
                "Kafka: internal error: settle() was called for a batch that was never read; "
                "please report it");
  for (const Piece& piece : readings_.front().pieces)
    piece.partition->settled = std::max(piece.partition->settled, piece.end);
  readings_.pop_front();
  return {};
}

Status KafkaSource::flush() {
  if (consumer_ == nullptr)
    return fail(Errc::unavailable, "Kafka: the source is not open; call open() first");
  std::vector<Partition*> settled;
  for (auto& [name, one] : partitions_) {
    if (one.assigned && one.settled > one.committed) settled.push_back(&one);
  }
  commit_due_ = false;
  return commit(settled);
}

Status KafkaSource::commit(const std::vector<Partition*>& partitions) {
  if (partitions.empty()) return {};
  const auto count = static_cast<int>(partitions.size());
  const Handle<rd_kafka_topic_partition_list_s> list(rd_kafka_topic_partition_list_new(count));
  for (const Partition* one : partitions)
    rd_kafka_topic_partition_list_add(list.get(), one->topic.c_str(), one->number)->offset =
        one->settled;
  const Handle<rd_kafka_queue_s> queue(rd_kafka_queue_new(consumer_.get()));
  rd_kafka_resp_err_t code =
      rd_kafka_commit_queue(consumer_.get(), list.get(), queue.get(), nullptr, nullptr);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const Handle<rd_kafka_op_s> answer(
        rd_kafka_queue_poll(queue.get(), to_milliseconds(kAnswerMax)));
    code = answer == nullptr ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(answer.get());
  }
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
    down_since_ = {};
    for (Partition* one : partitions) one->committed = one->settled;
    return {};
  }
  if (is_of_rebalance(code)) {
    commit_due_ = true;
    return {};
  }
  return fail(Errc::unavailable, std::string("Kafka: cannot commit offsets: ") +
                                     rd_kafka_err2str(code) + "; check the group and the brokers");
}

Status KafkaSource::check_connection() {
  if (connect_errors_.is_final())
    return fail(connection_error(options_, connect_errors_.code(), connect_errors_.text()));
  if (down_since_ == TimePoint{} || clock_.now() - down_since_ < kDownMax) return {};
  if (broker_answers(consumer_.get(), 1000, connect_errors_)) {
    down_since_ = {};
    connect_errors_.clear();
    return {};
  }
  return fail(connection_error(options_, connect_errors_.code(), connect_errors_.text()));
}

}  // namespace dovetail::kafka
