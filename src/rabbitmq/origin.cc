// The application's side: queues as the origin of a consumer.
#include <algorithm>
#include <utility>

#include "dovetail/rabbitmq.h"
#include "rabbitmq/source.h"

namespace dovetail::rabbitmq {

Result<Origin> origin(const ReadOptions& options) {
  if (options.queues.empty() || options.host.empty() || options.prefetch == 0)
    return fail(
        Errc::rejected,
        "the origin needs a host, queues and a prefetch of at least 1; set them in ReadOptions");
  Options own;
  own.server.host = options.host;
  own.server.port = options.port != 0 ? options.port : (options.tls ? 5671 : 5672);
  own.virtual_host = options.virtual_host;
  own.user = options.user;
  own.password = options.password;
  own.queues = options.queues;
  own.declare = options.declare;
  own.exclusive = options.exclusive;
  own.prefetch = options.prefetch;
  own.tls = options.tls;
  own.ca_file = options.ca_file;
  own.cert_file = options.cert_file;
  own.key_file = options.key_file;
  own.server_name = options.server_name;
  own.foreign = ForeignNames{options.id_header, options.type_header, options.aggregate_type_header,
                             options.aggregate_id_header};
  return Origin{"RabbitMQ at " + options.host + ":" + std::to_string(own.server.port),
                [own](Clock& clock, Duration call_max) -> Result<std::unique_ptr<Source>> {
                  Options bounded = own;
                  bounded.answer_timeout = std::min(bounded.answer_timeout, call_max);
                  return std::make_unique<RabbitmqSource>(std::move(bounded), clock);
                }};
}

}  // namespace dovetail::rabbitmq
