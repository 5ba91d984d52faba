// Messages come from other programs as bytes. Each becomes an event that every store can keep, or
// that says why it cannot be one; the same message always gives the same event.
#include "core/message/message.h"

#include <array>
#include <optional>
#include <string>

#include "core/event/utf8.h"
#include "core/message/cloudevents.h"
#include "dovetail/event.h"
#include "fuzz/fuzz.h"

using namespace dovetail;

namespace {

// The input is cut at newlines: dialect, topic, key, place, payload, then names and values.
std::string_view line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view first = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return first;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= EventLimits{}.name_bytes_max && is_valid_utf8(text) &&
         text.find('\0') == std::string_view::npos;
}

void check_value(std::string_view text) {
  Arena arena;
  FUZZ_REQUIRE(percent_decoded(percent_encoded(text, arena), arena) == text);
  FUZZ_REQUIRE(percent_decoded(text, arena).size() <= text.size());
}

}  // namespace

void check_input(std::string_view input) {
  constexpr std::array kDialects = {kKafkaDialect, kAmqpDialect, kNatsDialect, kHttpDialect};
  const std::string_view which = line(input);
  const MessageDialect dialect =
      kDialects[which.empty() ? 0 : static_cast<unsigned char>(which[0]) % kDialects.size()];
  ReceivedMessage message;
  message.topic = line(input);
  message.key = line(input);
  message.place = line(input);
  message.payload = line(input);
  std::vector<MessageHeader> headers;
  while (!input.empty()) {
    const std::string_view name = line(input);
    headers.push_back({name, line(input)});
  }
  message.headers = headers;

  const MessageReader reader({.id = "x-id", .aggregate_id = "x-key"}, dialect);
  Batch batch;
  reader.read(message, EventId{}, batch);
  reader.read(message, EventId{}, batch);
  FUZZ_REQUIRE(batch.size() == 2);
  check_value(message.payload);
  const Event& event = batch.events()[0];
  FUZZ_REQUIRE(event.id == batch.events()[1].id);
  FUZZ_REQUIRE(event.payload == message.payload);
  FUZZ_REQUIRE(is_name(event.aggregate_type) && is_name(event.type) && is_name(event.content_type));
  FUZZ_REQUIRE(event.topic.empty() || is_name(event.topic));
  FUZZ_REQUIRE(event.aggregate_id.size() <= EventLimits{}.key_bytes_max);
  FUZZ_REQUIRE(is_valid_utf8(event.aggregate_id));
  const auto own = decode_headers(event.headers);
  FUZZ_REQUIRE(own.has_value());
  FUZZ_REQUIRE(*encode_headers(*own) == event.headers);

  // An event that was read can be sent on, unless it has a header that the target format reserves.
  if (!event.defect.empty() || dialect.http_headers) return;
  const auto writer = MessageWriter::make({}, dialect);
  Arena arena;
  Message out;
  const Status written = writer->write(event, arena, out);
  FUZZ_REQUIRE(written || written.error().text.find("message format") != std::string::npos);
}

std::vector<std::string_view> seed_inputs() {
  return {
      "0\norders\n42\norders/1/2\n{}\nce_specversion\n1.0\nce_id\norder-17\nce_source\n/shop\n"
      "ce_type\nplaced\nce_time\n2018-04-05T03:56:24Z\ncontent-type\ntext/plain",
      "1\norders\n42\n\n{}\ncloudEvents:id\n018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09\n"
      "cloudEvents_type\nx\ntraceparent\n00-ab",
      "2\norders.new\n\norders:7\n{}\nCE-Subject\n%E2%82%AC%20\"x\nce-aggregateversion\n-7",
      "3\n\n\n\n\nce-type\n\"a \\\"b\\\"\"\nContent-Type\napplication/json\nx-id\n17\nx-key\n\xff",
      "0\noutbox.event.order\n\xff\xfe\n\nx\nid\n17\neventType\nplaced\na b\n\x01"};
}
