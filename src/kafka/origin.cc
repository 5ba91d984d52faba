// The application's side: topics as the origin of a consumer.
#include "dovetail/kafka.h"
#include "kafka/client.h"
#include "kafka/source.h"

namespace dovetail::kafka {

Result<Origin> origin(const ReadOptions& options) {
  if (options.topics.empty() || options.group.empty())
    return fail(Errc::rejected, "the origin needs topics and a group; set them in ReadOptions");
  Options own;
  own.brokers = options.brokers;
  own.topics = options.topics;
  own.group = options.group;
  own.from_end = options.from_end;
  own.tls = options.tls;
  own.ca_file = options.ca_file;
  own.cert_file = options.cert_file;
  own.key_file = options.key_file;
  own.user = options.user;
  own.password = options.password;
  own.sasl_mechanism = options.sasl_mechanism;
  own.foreign = ForeignNames{options.id_header, options.type_header, options.aggregate_type_header,
                             options.aggregate_id_header};
  own.properties.insert(options.properties.begin(), options.properties.end());
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
