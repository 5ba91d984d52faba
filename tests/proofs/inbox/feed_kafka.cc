// The linker redirects the source's calls to librdkafka to here, so that the process can end inside
// the callback that takes partitions away.
#include <librdkafka/rdkafka.h>

#include "host/host.h"
#include "kafka/source.h"
#include "proofs/inbox/feed.h"

namespace dovetail::shop {
namespace {

Doom* doom_of_revocation = nullptr;

}  // namespace

std::unique_ptr<Source> kafka_source(const std::string& port, const std::string& topic,
                                     const std::string& group, Doom& doom) {
  doom_of_revocation = &doom;
  kafka::Options options;
  options.brokers = "127.0.0.1:" + port;
  options.topics = {topic};
  options.group = group;
  options.properties["session.timeout.ms"] = "2000";
  options.properties["max.poll.interval.ms"] = "3000";
  return std::make_unique<kafka::KafkaSource>(options, system_clock());
}

void partitions_go() {
  if (doom_of_revocation != nullptr) doom_of_revocation->reach("revoking");
}
void partitions_are_gone() {
  if (doom_of_revocation != nullptr) doom_of_revocation->reach("revoked");
}

}  // namespace dovetail::shop

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker asks for these names.
rd_kafka_resp_err_t __real_rd_kafka_assign(rd_kafka_t* client,
                                           const rd_kafka_topic_partition_list_t* list);
rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t* client,
                                           const rd_kafka_topic_partition_list_t* list);

rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t* client,
                                           const rd_kafka_topic_partition_list_t* list) {
  if (list == nullptr) dovetail::shop::partitions_go();
  const rd_kafka_resp_err_t code = __real_rd_kafka_assign(client, list);
  if (list == nullptr) dovetail::shop::partitions_are_gone();
  return code;
}
// NOLINTEND(bugprone-reserved-identifier)
}
