// What is unsafe about a RabbitMQ server and the queues and exchanges that a relay uses there.
#pragma once

#include <cstddef>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "rabbitmq/options.h"

namespace dovetail::rabbitmq {

// AMQP tells only what is there. With management_url, queues are judged by their arguments and the
// policies in effect: those of `options.queues`, and where messages go to, those that are bound to
// the exchange (or, with the exchange "", all queues of the virtual host). Changes nothing.
// `payload_bytes_max`: that may be published; 0: not known. The server does not tell how large a
// message may be, so one of that size is offered to it, for a queue that does not exist.
// unavailable: the server does not answer.
Result<std::vector<Finding>> examine(const Options& options, Clock& clock,
                                     std::size_t payload_bytes_max = 0);

// How long `options.queues` keep messages, by their arguments and policies. Without management_url
// nothing is known of that, and they count as kept for ever. None comes again once acknowledged.
Result<std::vector<Kept>> retention(const Options& options);

}  // namespace dovetail::rabbitmq
