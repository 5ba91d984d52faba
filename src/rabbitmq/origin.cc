// The application's side: queues as the origin of a consumer.
#include "dovetail/rabbitmq.h"
#include "rabbitmq/source.h"

namespace dovetail::rabbitmq {

Result<Origin> origin(const ReadOptions& options) {
  if (options.queues.empty() || options.host.empty() || options.prefetch == 0)
    return fail(
        Errc::rejected,
        "the origin needs a host, queues and a prefetch of at least 1; set them in ReadOptions");
  const Options own{options};
  return Origin{"RabbitMQ at " + own.server().to_string(),
                [own](Clock& clock, Duration call_max) -> Result<std::unique_ptr<Source>> {
                  return make_source(own, call_max, clock);
                }};
}

}  // namespace dovetail::rabbitmq
