// Bytes from a NATS server. Parsing never reads beyond their end; accepted frames lie inside them;
// if the bytes are incomplete, so is every shorter prefix.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/message/json.h"
#include "fuzz/fuzz.h"
#include "nats/protocol.h"

namespace {

bool lies_within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_headers(std::string_view block) {
  dovetail::nats::HeaderBlock headers;
  dovetail::nats::parse_headers(block, headers);
  for (const auto& header : headers.headers) {
    FUZZ_REQUIRE(lies_within(header.name, block) && lies_within(header.value, block));
    FUZZ_REQUIRE(!header.name.empty());
  }
}

void check_acknowledgement(std::string_view subject) {
  dovetail::nats::AckSubject ack;
  if (!dovetail::nats::parse_ack_subject(subject, ack)) return;
  FUZZ_REQUIRE(subject.starts_with("$JS.ACK.") && ack.stream_sequence > 0);
  // The same in the form with a domain and an account.
  std::string longer = "$JS.ACK.domain.account.stream.consumer.1";
  for (const std::int64_t number : {ack.stream_sequence, ack.consumer_sequence, ack.time_ns})
    longer += "." + std::to_string(number);
  dovetail::nats::AckSubject again;
  FUZZ_REQUIRE(dovetail::nats::parse_ack_subject(longer + ".0.token", again));
  FUZZ_REQUIRE(again.stream_sequence == ack.stream_sequence &&
               again.consumer_sequence == ack.consumer_sequence && again.time_ns == ack.time_ns);
}

void check_version(std::string_view text) {
  const auto version = dovetail::nats::parse_version(text);
  const std::string shown = std::to_string(version.major) + "." + std::to_string(version.minor) +
                            "." + std::to_string(version.patch);
  FUZZ_REQUIRE(dovetail::nats::parse_version(shown) == version);
}

void compare(const dovetail::Json& ours, const nlohmann::json& theirs) {
  FUZZ_REQUIRE(ours.is_there());
  if (theirs.is_string()) FUZZ_REQUIRE(ours.text() == theirs.get<std::string>());
  if (theirs.is_boolean()) FUZZ_REQUIRE(ours.is_true() == theirs.get<bool>());
  if (theirs.is_null()) FUZZ_REQUIRE(ours.is_null());
  if (theirs.is_object())
    for (const auto& [name, value] : theirs.items()) FUZZ_REQUIRE(ours.get(name).is_there());
  if (!theirs.is_array()) return;
  const auto items = ours.items();
  FUZZ_REQUIRE(items.size() == theirs.size());
  for (std::size_t i = 0; i < items.size(); ++i) compare(items[i], theirs[i]);
}

// Another reader finds the same. It takes a zero for the end, and decodes the names of members.
void check_meaning(std::string_view text) {
  const auto theirs = nlohmann::json::parse(text, nullptr, false);
  if (theirs.is_discarded() || text.find('\0') != text.npos) return;
  if (std::count_if(text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; }) > 60)
    return;
  if (theirs.is_structured() && text.find('\\') != text.npos) return;
  compare(dovetail::Json::parse(text), theirs);
}

void check_json(std::string_view text) {
  check_meaning(text);
  const dovetail::Json json = dovetail::Json::parse(text);
  if (!json.is_there()) return;
  FUZZ_REQUIRE(lies_within(json.raw(), text));
  for (const char* name : {"seq", "error", "streams", "config"}) {
    const dovetail::Json member = json.get(name);
    FUZZ_REQUIRE(lies_within(member.raw(), text));
    for (const auto& item : member.items()) FUZZ_REQUIRE(item.is_there());
    (void)member.text();
    (void)member.number();
  }
  const std::string quoted = dovetail::json_text(json.text());
  FUZZ_REQUIRE(dovetail::Json::parse(quoted).text() == json.text());
}

}  // namespace

void check_input(std::string_view input) {
  using dovetail::nats::Frame;
  std::string_view rest = input;
  while (!rest.empty()) {
    Frame frame;
    const auto size = dovetail::nats::parse_frame(rest, frame);
    if (!size || *size == 0) break;
    FUZZ_REQUIRE(*size <= rest.size());
    for (const std::string_view part :
         {frame.text, frame.subject, frame.reply, frame.headers, frame.payload})
      FUZZ_REQUIRE(lies_within(part, rest.substr(0, *size)));
    Frame shorter;
    const auto early = dovetail::nats::parse_frame(rest.substr(0, *size - 1), shorter);
    FUZZ_REQUIRE(early.has_value() && *early == 0);
    check_headers(frame.headers);
    rest.remove_prefix(*size);
  }
  check_headers(input);
  check_json(input);
  check_acknowledgement(input);
  check_version(input);
  const std::string token = dovetail::nats::to_token(input);
  FUZZ_REQUIRE(token.empty() || dovetail::nats::why_no_subject(token).empty());
  FUZZ_REQUIRE(dovetail::nats::from_token(token) == input);
  std::string name;
  dovetail::nats::quoted_name(input, name);
}

std::vector<std::string_view> seed_inputs() {
  return {
      "$JS.ACK.ORDERS.worker.1.17.4.1794751247541648951.5",
      "$JS.ACK.hub.ACC.ORDERS.worker.1.17.4.1794751247541648951.5.rnd",
      "2.10.29-RC.1",
      "INFO {\"version\":\"2.9.10\",\"headers\":true,\"max_payload\":1048576} \r\n",
      "MSG _INBOX.x.12 1  23\r\n{\"stream\":\"S\", \"seq\":1}\r\n",
      "HMSG _INBOX.x.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
      "HMSG d.a 1 $JS.ACK.D.w.1.1.1.1794751247541648951.5 18 20\r\nNATS/1.0\r\nX: 0\r\n\r\nm0\r\n",
      "PING\r\nPONG\r\n+OK\r\n-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n",
      "NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\n\r\n",
      R"({"error":{"code":503,"err_code":10077,"description":"full"},"seq":0,"streams":["A",1]})",
      R"("a\u003e\n\u00e9\ud83d\ude00")"};
}
