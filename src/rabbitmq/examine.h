// What is unsafe about a RabbitMQ server and the queues and exchanges that a relay uses.
#pragma once

#include <cstddef>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "rabbitmq/options.h"

namespace dovetail::rabbitmq {

// AMQP only tells what exists. With management_url, the arguments and policies of queues are
// checked: those of `options.queues`, and those bound to the exchange (with the exchange "",
// all queues of the virtual host). Changes nothing. `payload_bytes_max`: the largest that
// may be published; 0: unknown. The server does not tell its message limit, so a message of
// that size is offered to a queue that does not exist. unavailable: the server does not
// answer.
Result<std::vector<Finding>> examine(const Options& options, Clock& clock,
                                     std::size_t payload_bytes_max = 0);

// How long `options.queues` keep messages, by arguments and policies. Without management_url the
// answer is "without limit". An acknowledged message never comes again.
Result<std::vector<Kept>> retention(const Options& options);

}  // namespace dovetail::rabbitmq
