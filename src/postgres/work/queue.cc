#include "postgres/work/queue.h"

namespace dovetail::postgres {

Params enqueue_params(std::string_view consumer, Events events) {
  std::vector<EventId> id;
  std::vector<std::int64_t> aggregate_version;
  std::vector<std::string_view> topic, aggregate_type, aggregate_id, type, content_type, headers,
      payload;
  std::vector<WallTime> created_at;
  for (const Event* event : events) {
    id.push_back(event->id);
    topic.push_back(event->topic);
    aggregate_type.push_back(event->aggregate_type);
    aggregate_id.push_back(event->aggregate_id);
    type.push_back(event->type);
    content_type.push_back(event->content_type);
    headers.push_back(event->headers);
    payload.push_back(event->payload);
    aggregate_version.push_back(event->aggregate_version);
    created_at.push_back(event->created_at);
  }
  Params params;
  params.text(consumer)
      .uuid_array(id)
      .text_array(topic)
      .text_array(aggregate_type)
      .text_array(aggregate_id)
      .text_array(type)
      .text_array(content_type)
      .text_array(headers)
      .bytea_array(payload)
      .int8_array(aggregate_version)
      .timestamptz_array(created_at);
  return params;
}

TransactionHandler queue_handler(std::string name, std::vector<std::string> types) {
  TransactionHandler handler;
  handler.name = name;
  handler.types = std::move(types);
  handler.run = [consumer = std::move(name)](BatchInvocation& invocation, Events events) {
    return invocation.queue(kEnqueue, enqueue_params(consumer, events));
  };
  return handler;
}

}  // namespace dovetail::postgres
