#include "kafka/lookup/find_event.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/event/batch.h"
#include "host/host.h"
#include "kafka/client.h"
#include "kafka/decoder.h"
#include "kafka/lookup/partition_reader.h"

namespace dovetail::kafka {

namespace {

constexpr int kFindSliceMs = 50;
// For the first answers, however little time there is.
constexpr Duration kAnswerMin = std::chrono::seconds(2);

class Search {
 public:
  Search(const Options& options, const EventId& id, Duration time_max)
      : options_(options), id_(id), until_(now() + time_max), decoder_(options) {
    options_.connect_timeout =
        std::min<Duration>(options_.connect_timeout, std::max(time_max, kAnswerMin));
  }

  Result<life::BrokerAnswer> run(std::span<const PlaceRange> places);

 private:
  Status search(const std::string& topic, std::span<const PlaceRange> places);
  Result<std::vector<OffsetRange>> ranges_of(const std::string& topic,
                                             std::span<const PlaceRange> places);
  Status read(const std::string& topic, std::vector<OffsetRange>& ranges);
  Status take(const std::string& topic, const rd_kafka_message_s& message, OffsetRange& range);
  static TimePoint now() { return system_clock().now(); }

  Options options_;
  const EventId id_;
  const TimePoint until_;
  Decoder decoder_;
  ConnectErrors errors_{};
  Handle<rd_kafka_s> client_{};
  Batch batch_{};
  life::BrokerAnswer answer_{};
};

Result<life::BrokerAnswer> Search::run(std::span<const PlaceRange> places) {
  Result<Handle<rd_kafka_s>> client = open_reader(options_, errors_);
  if (!client) return fail(client.error());
  client_ = std::move(*client);
  // Of one topic, and one range of each partition, at a time.
  std::vector<PlaceRange> left(places.begin(), places.end());
  while (!left.empty() && answer_.messages.empty()) {
    const std::string topic = left.front().topic;
    std::vector<PlaceRange> some;
    std::vector<PlaceRange> later;
    for (PlaceRange& one : left) {
      const bool is_taken = std::any_of(some.begin(), some.end(), [&](const PlaceRange& other) {
        return other.partition == one.partition;
      });
      (one.topic != topic || is_taken ? later : some).push_back(std::move(one));
    }
    left = std::move(later);
    DOVETAIL_TRY(search(topic, some));
  }
  return std::move(answer_);
}

// Without what the topic has deleted since.
Result<std::vector<OffsetRange>> Search::ranges_of(const std::string& topic,
                                                   std::span<const PlaceRange> places) {
  std::vector<OffsetRange> ranges;
  for (const PlaceRange& place : places) {
    if (place.partition < 0) continue;
    const Result<OffsetRange> stored =
        stored_offsets(client_.get(), topic, place.partition, std::max(until_ - now(), kAnswerMin));
    if (!stored) return fail(stored.error());
    ranges.push_back({place.partition, std::max(place.first, stored->next),
                      std::min(place.last + 1, stored->end)});
  }
  return ranges;
}

Status Search::search(const std::string& topic, std::span<const PlaceRange> places) {
  const std::string full_name = options_.topic_prefix + topic;
  Result<std::vector<OffsetRange>> ranges = ranges_of(full_name, places);
  if (!ranges) return fail(ranges.error());
  DOVETAIL_TRY(assign(client_.get(), full_name, *ranges));
  DOVETAIL_TRY(read(topic, *ranges));
  if (!answer_.messages.empty()) return {};
  for (const OffsetRange& range : *ranges)
    answer_.unread += static_cast<std::uint64_t>(std::max<std::int64_t>(0, range.end - range.next));
  return {};
}

Status Search::read(const std::string& topic, std::vector<OffsetRange>& ranges) {
  const auto is_read = [](const OffsetRange& one) { return one.next >= one.end; };
  while (answer_.messages.empty() && !std::all_of(ranges.begin(), ranges.end(), is_read)) {
    if (now() >= until_) return {};
    const Handle<rd_kafka_message_s> message(rd_kafka_consumer_poll(client_.get(), kFindSliceMs));
    if (message == nullptr && errors_.is_final())
      return fail(connection_error(options_, errors_.code(), errors_.text()));
    if (message == nullptr || is_passing(*message)) continue;
    const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const OffsetRange& one) {
      return one.partition == message->partition;
    });
    if (range != ranges.end()) DOVETAIL_TRY(take(topic, *message, *range));
  }
  return {};
}

Status Search::take(const std::string& topic, const rd_kafka_message_s& message,
                    OffsetRange& range) {
  if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    range.next = std::max(range.next, message.offset);
    return {};
  }
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::unavailable, "Kafka: cannot read " + options_.topic_prefix + topic + ": " +
                                       rd_kafka_message_errstr(&message) +
                                       "; check that this user may read the topic");
  range.next = std::max(range.next, message.offset + 1);
  if (message.offset >= range.end) return {};
  batch_.clear();
  decoder_.read(message, batch_);
  if (batch_.events().front().id != id_) return {};
  const std::int64_t time_ms = rd_kafka_message_timestamp(&message, nullptr);
  answer_.messages.push_back(
      {.topic = topic,
       .place = {message.partition, message.offset},
       .at = WallTime{std::chrono::milliseconds(std::max<std::int64_t>(0, time_ms))}});
  return {};
}

}  // namespace

Result<life::BrokerAnswer> find_event(const Options& options, const EventId& id,
                                      std::span<const PlaceRange> places, Duration time_max) {
  return Search(options, id, time_max).run(places);
}

}  // namespace dovetail::kafka
