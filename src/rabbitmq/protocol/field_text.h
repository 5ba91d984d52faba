// Values of AMQP headers as text: RabbitMQ's own headers, and those of other publishers, are
// numbers, times and tables as well.
#pragma once

#include <string>

struct amqp_field_value_t_;

namespace dovetail::rabbitmq {

// Appends texts and bytes as they are, numbers in decimal, times as "2026-01-31T12:00:00Z", and
// tables and arrays as JSON.
void append_text(std::string& out, const amqp_field_value_t_& value);

}  // namespace dovetail::rabbitmq
