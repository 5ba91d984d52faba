#include "documents/events.h"

#include <nlohmann/json.hpp>

#include "config/units.h"

namespace dovetail::app {

namespace {

bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto byte = at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U;
      group = group << 8 | byte;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

std::string state_of(const EventRow& row) {
  const bool is_unread = row.relay.empty() && row.state != EventState::delayed;
  return is_unread ? "unread" : std::string(to_string(row.state));
}

Json json_of(const config::StoreConfig& store, SourceKind source, const EventRow& row) {
  Json headers = Json::object();
  if (const auto decoded = decode_headers(row.headers); decoded && !row.headers.empty()) {
    for (const Header& header : *decoded) headers[header.name] = header.value;
  }
  Json json{{"store", store.name},
            {"box", to_string(source)},
            {"position", row.position},
            {"id", row.id.to_string()},
            {"relay", row.relay},
            {"state", state_of(row)},
            {"topic", row.topic},
            {"aggregate_type", row.aggregate_type},
            {"key", row.aggregate_id},
            {"type", row.type},
            {"content_type", row.content_type},
            {"headers", headers},
            {"payload_bytes", row.payload_bytes},
            {"version", row.aggregate_version},
            {"created_at", config::iso_time(row.created_at)}};
  if (row.deliver_at) json["deliver_at"] = config::iso_time(*row.deliver_at);
  if (!row.delayed_because.empty()) json["delayed_because"] = row.delayed_because;
  return json;
}

Json json_of(const ParkedPlace& place) {
  const ParkedRow& row = place.row;
  Json json{{"store", place.store->name},
            {"relay", row.relay},
            {"id", row.id.to_string()},
            {"state", to_string(row.state)},
            {"head", row.head},
            {"attempts", row.attempts},
            {"reason", row.reason},
            {"topic", row.topic},
            {"aggregate_type", row.aggregate_type},
            {"key", row.aggregate_id},
            {"type", row.type},
            {"payload_bytes", row.payload_bytes},
            {"position", row.position},
            {"parked_at", config::iso_time(row.parked_at)},
            {"retry_at", nullptr},
            {"finished_at", nullptr},
            {"note", row.note}};
  // A parked event is sent again only when an operator replays it.
  if (row.state == EventState::waiting) json["retry_at"] = config::iso_time(row.retry_at);
  if (row.finished_at > WallTime{}) json["finished_at"] = config::iso_time(row.finished_at);
  return json;
}

Json json_of(const config::StoreConfig& store, const AuditRow& row) {
  return {{"store", store.name},  {"at", config::iso_time(row.at)},
          {"who", row.who},       {"what", row.what},
          {"relay", row.relay},   {"subject", row.subject},
          {"events", row.events}, {"reason", row.reason}};
}

void add_payload(Json& document, const std::string& payload) {
  const bool is_text = is_utf8(payload);
  document[is_text ? "payload" : "payload_base64"] = is_text ? payload : base64(payload);
}

}  // namespace dovetail::app
