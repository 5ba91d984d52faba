// AMQP header values as text: headers of RabbitMQ and of other publishers can also be numbers,
// times and tables.
#pragma once

#include <string>

struct amqp_field_value_t_;

namespace dovetail::rabbitmq {

// Appends texts and bytes unchanged, numbers in decimal, times as "2026-01-31T12:00:00Z", tables
// and arrays as JSON.
void append_text(std::string& out, const amqp_field_value_t_& value);

}  // namespace dovetail::rabbitmq
