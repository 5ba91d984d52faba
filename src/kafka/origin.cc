// The application's side: topics as the origin of a consumer.
#include "dovetail/kafka.h"
#include "kafka/client.h"
#include "kafka/source.h"

namespace dovetail::kafka {

Result<Origin> origin(const ReadOptions& options) {
  if (options.topics.empty() || options.group.empty())
    return fail(Errc::rejected, "the origin needs topics and a group; set them in ReadOptions");
  const Options own{options};
  const auto properties = properties_of(own, Role::consumer);
  if (!properties) return fail(properties.error());
  // Only librdkafka can judge these names and values.
  if (const auto made = make_configuration(*properties); !made) return fail(made.error());
  return Origin{"Kafka at " + options.brokers,
                [own](Clock& clock, Duration) -> Result<std::unique_ptr<Source>> {
                  return std::make_unique<KafkaSource>(own, clock);
                }};
}

}  // namespace dovetail::kafka
