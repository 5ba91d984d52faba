#include "memory/stored_event.h"

namespace dovetail {

StoredEvent::StoredEvent(const Event& event)
    : id(event.id),
      position(event.position),
      key_hash(event.key_hash),
      topic(event.topic),
      aggregate_type(event.aggregate_type),
      aggregate_id(event.aggregate_id),
      type(event.type),
      content_type(event.content_type),
      headers(event.headers),
      payload(event.payload),
      aggregate_version(event.aggregate_version),
      created_at(event.created_at) {}

Event StoredEvent::view() const {
  Event event;
  event.id = id;
  event.position = position;
  event.key_hash = key_hash;
  event.topic = topic;
  event.aggregate_type = aggregate_type;
  event.aggregate_id = aggregate_id;
  event.type = type;
  event.content_type = content_type;
  event.headers = headers;
  event.payload = payload;
  event.aggregate_version = aggregate_version;
  event.created_at = created_at;
  return event;
}

std::size_t StoredEvent::bytes() const {
  return topic.size() + aggregate_type.size() + aggregate_id.size() + type.size() +
         content_type.size() + headers.size() + payload.size();
}

}  // namespace dovetail
