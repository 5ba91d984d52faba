#include "kafka/lookup/topic_scan.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "core/event/batch.h"
#include "core/inbox/forgotten.h"
#include "host/host.h"
#include "host/sorted_runs.h"
#include "kafka/admin.h"
#include "kafka/client.h"
#include "kafka/decoder.h"
#include "kafka/lookup/partition_reader.h"

namespace dovetail::kafka {

namespace {

using reconcile::Received;

constexpr std::size_t kMemoryMax = std::size_t{32} << 20;
constexpr Duration kAnswerMax = std::chrono::seconds(10);
constexpr Duration kSilenceMax = std::chrono::seconds(60);
constexpr int kScanSliceMs = 100;
constexpr std::uint64_t kWatchEvery = 1000;

// A message in the order of its bytes: id, partition, offset, time, digest, time of writing.
constexpr std::size_t kRecordBytes = 16 + 4 + 8 + 8 + 8 + 8;
using Record = std::array<std::uint8_t, kRecordBytes>;

void put(Record& record, std::size_t at, std::size_t bytes, std::int64_t value) {
  for (std::size_t i = 0; i < bytes; ++i)
    record[at + i] =
        static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * (bytes - 1 - i)));
}

std::int64_t get(const Record& record, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | record[at + i];
  return static_cast<std::int64_t>(value);
}

Record record_of(const Event& event, std::int32_t partition, WallTime at) {
  Record record{};
  std::copy(event.id.bytes.begin(), event.id.bytes.end(), record.begin());
  put(record, 16, 4, partition);
  put(record, 20, 8, event.position - 1);
  put(record, 28, 8, at.time_since_epoch().count());
  put(record, 36, 8, payload_digest(event.payload));
  put(record, 44, 8, available_at(event).value_or(at).time_since_epoch().count());
  return record;
}

class TopicScan final : public reconcile::ReceiverScan, private reconcile::Stream<Received> {
 public:
  TopicScan(const Options& options, std::string topic)
      : options_(options),
        full_name_(options.topic_prefix + topic),
        names_{std::move(topic)},
        decoder_(options),
        records_(kMemoryMax) {}

  Status read(WallTime from, const reconcile::Watch& watch);

  const std::vector<std::string>& names() const override { return names_; }
  reconcile::Stream<Received>& rows() override { return *this; }
  const reconcile::Place& place() const override { return place_; }
  Result<WallTime> retained_since() override { return retained_since_; }

 private:
  struct Part {
    bool has_lost = false;  // it deleted its oldest messages
    bool is_begun = false;
  };

  Result<const Received*> next() override;
  Result<int> count_partitions();
  Status check_policy();
  Status find_ends(int partitions);
  Status find_starts(WallTime from);
  Status read_parts(const reconcile::Watch& watch);
  Status take(const rd_kafka_message_s& message);
  bool is_over() const;

  const Options options_;
  const std::string full_name_;
  const std::vector<std::string> names_;
  Decoder decoder_;
  ConnectErrors errors_{};
  Handle<rd_kafka_s> client_{};
  std::vector<OffsetRange> ranges_{};  // by partition
  std::vector<Part> parts_{};
  Batch batch_{};
  SortedRuns<kRecordBytes> records_;
  reconcile::Place place_{};
  WallTime retained_since_ = WallTime::min();
  Received current_{};
};

Result<const Received*> TopicScan::next() {
  const Result<const Record*> record = records_.next();
  if (!record) return fail(record.error());
  if (*record == nullptr) return nullptr;
  const Record& bytes = **record;
  std::copy_n(bytes.begin(), current_.id.bytes.size(), current_.id.bytes.begin());
  current_.partition = static_cast<std::int32_t>(get(bytes, 16, 4));
  current_.offset = get(bytes, 20, 8);
  current_.at = WallTime(std::chrono::microseconds(get(bytes, 28, 8)));
  current_.digest = get(bytes, 36, 8);
  current_.available_at = WallTime(std::chrono::microseconds(get(bytes, 44, 8)));
  return &current_;
}

Result<int> TopicScan::count_partitions() {
  const Result<ClusterShape> shape = cluster_shape(client_.get(), kAnswerMax);
  if (!shape) return fail(shape.error());
  for (const TopicShape& topic : shape->topics)
    if (topic.name == full_name_) return static_cast<int>(topic.partitions);
  return fail(Errc::rejected,
              "Kafka: there is no topic " + full_name_ + "; check its name and the topic_prefix");
}

Status TopicScan::check_policy() {
  const Result<Settings> settings = topic_settings(client_.get(), full_name_, kAnswerMax);
  // A user may read a topic without the right to see its settings.
  if (!settings) return settings.error().code == Errc::rejected ? Status{} : fail(settings.error());
  const auto policy = settings->find("cleanup.policy");
  if (policy == settings->end() || policy->second.find("compact") == std::string::npos) return {};
  return fail(Errc::rejected,
              "Kafka: " + full_name_ +
                  " is compacted, so it forgets older events of a key and nobody can tell which "
                  "were missing; reconcile a topic with cleanup.policy=delete");
}

Status TopicScan::find_ends(int partitions) {
  parts_.resize(static_cast<std::size_t>(partitions));
  for (int i = 0; i < partitions; ++i) {
    const Result<OffsetRange> stored = stored_offsets(client_.get(), full_name_, i, kAnswerMax);
    if (!stored) return fail(stored.error());
    ranges_.push_back(*stored);
    const bool has_lost = stored->next > 0;
    parts_[static_cast<std::size_t>(i)].has_lost = has_lost;
    // Nobody knows what a partition had that has nothing any more.
    if (has_lost && stored->next == stored->end) retained_since_ = place_.at;
  }
  return {};
}

Status TopicScan::find_starts(WallTime from) {
  const auto since = from - kSkewMax;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since.time_since_epoch());
  if (ms.count() <= 0) return {};
  const Handle<rd_kafka_topic_partition_list_s> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(ranges_.size())));
  for (std::size_t i = 0; i < ranges_.size(); ++i)
    rd_kafka_topic_partition_list_add(list.get(), full_name_.c_str(), static_cast<int>(i))->offset =
        ms.count();
  const rd_kafka_resp_err_t code =
      rd_kafka_offsets_for_times(client_.get(), list.get(), to_milliseconds(kAnswerMax));
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::unavailable, "Kafka: cannot find the offsets of a time in " + full_name_ +
                                       ": " + rd_kafka_err2str(code) + "; check the brokers");
  for (int i = 0; i < list->cnt; ++i) {
    const auto at = static_cast<std::size_t>(list->elems[i].partition);
    OffsetRange& range = ranges_[at];
    const std::int64_t offset = list->elems[i].offset;
    // A negative offset: every message is older.
    const std::int64_t start = offset < 0 ? range.end : offset;
    // What it lost is older than what is wanted.
    if (start > range.next) parts_[at].has_lost = false;
    range.next = std::max(range.next, start);
  }
  return {};
}

bool TopicScan::is_over() const {
  return std::all_of(ranges_.begin(), ranges_.end(),
                     [](const OffsetRange& range) { return range.next >= range.end; });
}

Status TopicScan::take(const rd_kafka_message_s& message) {
  Part& part = parts_[static_cast<std::size_t>(message.partition)];
  OffsetRange& range = ranges_[static_cast<std::size_t>(message.partition)];
  if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    // Behind its last message may be marks of transactions, which nobody gets.
    range.next = std::max(range.next, message.offset);
    return {};
  }
  if (is_passing(message)) return {};
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::unavailable, "Kafka: cannot read " + full_name_ + ": " +
                                       rd_kafka_message_errstr(&message) +
                                       "; check that this user may read the topic");
  range.next = std::max(range.next, message.offset + 1);
  const std::int64_t time_ms = rd_kafka_message_timestamp(&message, nullptr);
  const WallTime at{std::chrono::milliseconds(std::max<std::int64_t>(0, time_ms))};
  if (part.has_lost && !part.is_begun) retained_since_ = std::max(retained_since_, at);
  part.is_begun = true;
  if (message.offset >= range.end) return {};  // it came meanwhile
  batch_.clear();
  decoder_.read(message, batch_);
  return records_.add(record_of(batch_.events().front(), message.partition, at));
}

Status TopicScan::read_parts(const reconcile::Watch& watch) {
  std::uint64_t count = 0;
  TimePoint heard_at = system_clock().now();
  while (!is_over()) {
    const Handle<rd_kafka_message_s> message(rd_kafka_consumer_poll(client_.get(), kScanSliceMs));
    const bool is_watched = message == nullptr || ++count % kWatchEvery == 0;
    if (is_watched && watch && !watch(records_.count()))
      return fail(Errc::stopped, "reading the topic was stopped; nothing was reported");
    if (message != nullptr) {
      heard_at = system_clock().now();
      DOVETAIL_TRY(take(*message));
    } else if (errors_.is_final() || system_clock().now() - heard_at > kSilenceMax) {
      return fail(connection_error(options_, errors_.code(),
                                   errors_.text().empty() ? "no answer" : errors_.text()));
    }
  }
  return {};
}

Status TopicScan::read(WallTime from, const reconcile::Watch& watch) {
  place_.at = system_clock().wall();
  place_.login = options_.user;
  Result<Handle<rd_kafka_s>> client = open_reader(options_, errors_);
  if (!client) return fail(client.error());
  client_ = std::move(*client);
  const Result<int> partitions = count_partitions();
  if (!partitions) return fail(partitions.error());
  DOVETAIL_TRY(check_policy());
  DOVETAIL_TRY(find_ends(*partitions));
  DOVETAIL_TRY(find_starts(from));
  DOVETAIL_TRY(assign(client_.get(), full_name_, ranges_));
  DOVETAIL_TRY(read_parts(watch));
  client_.reset();
  return {};
}

}  // namespace

Result<std::unique_ptr<reconcile::ReceiverScan>> scan_topic(const Options& options,
                                                            const std::string& topic, WallTime from,
                                                            const reconcile::Watch& watch) {
  auto scan = std::make_unique<TopicScan>(options, topic);
  DOVETAIL_TRY(scan->read(from, watch));
  return scan;
}

}  // namespace dovetail::kafka
