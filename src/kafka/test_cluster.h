// The Kafka server of the tests. Each test has its own topics on it; their content is read by
// librdkafka directly.
#pragma once

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kafka/client.h"
#include "kafka/options.h"
#include "servers/servers.h"

namespace dovetail::kafka {

struct RawMessage {
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  bool has_key = false;
  std::string key{};
  std::string payload{};
  std::vector<std::pair<std::string, std::string>> headers{};

  std::string header(std::string_view name) const {
    for (const auto& [known, value] : headers)
      if (known == name) return value;
    return {};
  }
};

class TestCluster {
 public:
  explicit TestCluster(servers::Server server = servers::find("kafka"))
      : server_(std::move(server)) {
    static std::atomic<int> count{0};
    prefix_ = "t" + std::to_string(getpid()) + "_" + std::to_string(++count) + ".";
    auto made = client(RD_KAFKA_PRODUCER, {});
    admin_ = std::move(made);
  }

  const servers::Server& server() const { return server_; }
  const std::string& prefix() const { return prefix_; }
  std::string address(const std::string& field = "port") const {
    return "127.0.0.1:" + server_.field(field);
  }
  // Sees this test's own topics only.
  Options options() const {
    Options options;
    options.brokers = address();
    options.topic_prefix = prefix_;
    options.group = prefix_ + "group";
    options.single_node = true;
    return options;
  }

  // The controller knows a new topic before the broker tells of it.
  void wait_for(const std::string& full, bool wanted = true) {
    const Handle<rd_kafka_topic_s> topic(rd_kafka_topic_new(admin_.get(), full.c_str(), nullptr));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    bool is_known = !wanted;
    while (is_known != wanted && std::chrono::steady_clock::now() < end) {
      const rd_kafka_metadata_t* told = nullptr;
      if (rd_kafka_metadata(admin_.get(), 0, topic.get(), &told, 10'000) != 0) continue;
      is_known = told->topic_cnt == 1 && told->topics[0].err == 0;
      rd_kafka_metadata_destroy(told);
      if (is_known != wanted) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_EQ(is_known, wanted) << full;
  }

  void create_topic(const std::string& name, int partitions = 1,
                    const std::map<std::string, std::string>& settings = {}) {
    const std::string full = prefix_ + name;
    std::array<char, 256> why{};
    rd_kafka_NewTopic_t* topic =
        rd_kafka_NewTopic_new(full.c_str(), partitions, 1, why.data(), why.size());
    for (const auto& [key, value] : settings)
      rd_kafka_NewTopic_set_config(topic, key.c_str(), value.c_str());
    run(
        RD_KAFKA_ADMIN_OP_CREATETOPICS,
        [&](rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
          rd_kafka_CreateTopics(admin_.get(), &topic, 1, options, queue);
        },
        [](const rd_kafka_event_t* event) {
          std::size_t count = 0;
          const auto** results = rd_kafka_CreateTopics_result_topics(
              rd_kafka_event_CreateTopics_result(const_cast<rd_kafka_event_t*>(event)), &count);
          return rd_kafka_topic_result_error(results[0]);
        });
    rd_kafka_NewTopic_destroy(topic);
    wait_for(full);
  }

  // Returns when the broker does not list it any more.
  void delete_topic(const std::string& name) {
    const std::string full = prefix_ + name;
    rd_kafka_DeleteTopic_t* topic = rd_kafka_DeleteTopic_new(full.c_str());
    run(
        RD_KAFKA_ADMIN_OP_DELETETOPICS,
        [&](rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
          rd_kafka_DeleteTopics(admin_.get(), &topic, 1, options, queue);
        },
        [](const rd_kafka_event_t* event) {
          std::size_t count = 0;
          const auto** results = rd_kafka_DeleteTopics_result_topics(
              rd_kafka_event_DeleteTopics_result(const_cast<rd_kafka_event_t*>(event)), &count);
          return rd_kafka_topic_result_error(results[0]);
        });
    rd_kafka_DeleteTopic_destroy(topic);
    wait_for(full, false);
  }

  void add_partitions(const std::string& name, std::size_t in_all) {
    std::array<char, 256> why{};
    rd_kafka_NewPartitions_t* more =
        rd_kafka_NewPartitions_new((prefix_ + name).c_str(), in_all, why.data(), why.size());
    run(
        RD_KAFKA_ADMIN_OP_CREATEPARTITIONS,
        [&](rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
          rd_kafka_CreatePartitions(admin_.get(), &more, 1, options, queue);
        },
        [](const rd_kafka_event_t* event) {
          return rd_kafka_event_error(const_cast<rd_kafka_event_t*>(event));
        });
    rd_kafka_NewPartitions_destroy(more);
  }

  // Deletes all records of partition 0 before `offset`, as retention does.
  void delete_before(const std::string& name, std::int64_t offset, std::int32_t partition = 0) {
    const Handle<rd_kafka_topic_partition_list_s> list(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(list.get(), (prefix_ + name).c_str(), partition)->offset =
        offset;
    rd_kafka_DeleteRecords_t* request = rd_kafka_DeleteRecords_new(list.get());
    run(
        RD_KAFKA_ADMIN_OP_DELETERECORDS,
        [&](rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
          rd_kafka_DeleteRecords(admin_.get(), &request, 1, options, queue);
        },
        [](const rd_kafka_event_t* event) {
          return rd_kafka_event_error(const_cast<rd_kafka_event_t*>(event));
        });
    rd_kafka_DeleteRecords_destroy(request);
  }

  // From now on only user `only` may use the topic, and only for `operation`.
  void reserve_topic(const std::string& name, const std::string& only,
                     rd_kafka_AclOperation_t operation = RD_KAFKA_ACL_OPERATION_ALL) {
    std::array<char, 256> why{};
    rd_kafka_AclBinding_t* binding = rd_kafka_AclBinding_new(
        RD_KAFKA_RESOURCE_TOPIC, (prefix_ + name).c_str(), RD_KAFKA_RESOURCE_PATTERN_LITERAL,
        ("User:" + only).c_str(), "*", operation, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, why.data(),
        why.size());
    ASSERT_NE(binding, nullptr) << why.data();
    run(
        RD_KAFKA_ADMIN_OP_CREATEACLS,
        [&](rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
          rd_kafka_CreateAcls(admin_.get(), &binding, 1, options, queue);
        },
        [](const rd_kafka_event_t* event) {
          return rd_kafka_event_error(const_cast<rd_kafka_event_t*>(event));
        });
    rd_kafka_AclBinding_destroy(binding);
  }

  // All messages of the topic, partition by partition.
  std::vector<RawMessage> messages(const std::string& name, int partitions = 1) {
    const std::string full = prefix_ + name;
    const auto consumer =
        client(RD_KAFKA_CONSUMER, {{"group.id", "outside"}, {"enable.auto.commit", "false"}});
    rd_kafka_poll_set_consumer(consumer.get());
    std::vector<RawMessage> found;
    for (std::int32_t p = 0; p < partitions; ++p) read_partition(consumer.get(), full, p, found);
    return found;
  }

  Handle<rd_kafka_s> client(rd_kafka_type_t type,
                            const std::map<std::string, std::string>& more) const {
    std::array<char, 256> why{};
    rd_kafka_conf_t* configuration = rd_kafka_conf_new();
    rd_kafka_conf_set(configuration, "bootstrap.servers", address().c_str(), nullptr, 0);
    rd_kafka_conf_set(configuration, "log_level", "0", nullptr, 0);
    for (const auto& [key, value] : more)
      rd_kafka_conf_set(configuration, key.c_str(), value.c_str(), nullptr, 0);
    Handle<rd_kafka_s> made(rd_kafka_new(type, configuration, why.data(), why.size()));
    EXPECT_NE(made, nullptr) << why.data();
    return made;
  }

 private:
  // After a standstill the controller has fenced the broker, and says that no broker can hold a
  // replica until the broker has reported again.
  template <class Ask, class Answer>
  void run(rd_kafka_admin_op_t what, Ask ask, Answer answer) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    do {
      code = run_once(what, ask, answer);
    } while (code == RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR &&
             std::chrono::steady_clock::now() < end);
    EXPECT_EQ(code, RD_KAFKA_RESP_ERR_NO_ERROR) << rd_kafka_err2str(code);
  }

  template <class Ask, class Answer>
  rd_kafka_resp_err_t run_once(rd_kafka_admin_op_t what, Ask ask, Answer answer) {
    rd_kafka_AdminOptions_t* options = rd_kafka_AdminOptions_new(admin_.get(), what);
    rd_kafka_AdminOptions_set_request_timeout(options, 30'000, nullptr, 0);
    if (what == RD_KAFKA_ADMIN_OP_CREATETOPICS || what == RD_KAFKA_ADMIN_OP_DELETERECORDS)
      rd_kafka_AdminOptions_set_operation_timeout(options, 30'000, nullptr, 0);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    {
      const Handle<rd_kafka_queue_s> queue(rd_kafka_queue_new(admin_.get()));
      ask(options, queue.get());
      const Handle<rd_kafka_op_s> event(rd_kafka_queue_poll(queue.get(), 31'000));
      if (event != nullptr) {
        code = rd_kafka_event_error(event.get());
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR) code = answer(event.get());
      }
    }
    rd_kafka_AdminOptions_destroy(options);
    return code;
  }

  static void read_partition(rd_kafka_t* consumer, const std::string& topic, std::int32_t partition,
                             std::vector<RawMessage>& out) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    // A new partition may not have its leader yet.
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    do {
      code =
          rd_kafka_query_watermark_offsets(consumer, topic.c_str(), partition, &low, &high, 1000);
    } while (code != RD_KAFKA_RESP_ERR_NO_ERROR && std::chrono::steady_clock::now() < end);
    ASSERT_EQ(code, RD_KAFKA_RESP_ERR_NO_ERROR) << rd_kafka_err2str(code);
    const Handle<rd_kafka_topic_partition_list_s> list(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition)->offset = low;
    rd_kafka_assign(consumer, list.get());
    for (std::int64_t next = low; next < high && std::chrono::steady_clock::now() < end;) {
      const Handle<rd_kafka_message_s> message(rd_kafka_consumer_poll(consumer, 100));
      if (message == nullptr || message->err != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
      out.push_back(raw_of(*message));
      next = message->offset + 1;
    }
    rd_kafka_assign(consumer, nullptr);
  }

  static RawMessage raw_of(const rd_kafka_message_t& message) {
    RawMessage raw;
    raw.partition = message.partition;
    raw.offset = message.offset;
    raw.has_key = message.key != nullptr;
    raw.key.assign(static_cast<const char*>(message.key), message.key_len);
    raw.payload.assign(static_cast<const char*>(message.payload), message.len);
    rd_kafka_headers_t* headers = nullptr;
    if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
      const char* name = nullptr;
      const void* value = nullptr;
      std::size_t size = 0;
      for (std::size_t i = 0;
           rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
           ++i)
        raw.headers.emplace_back(name, std::string(static_cast<const char*>(value), size));
    }
    return raw;
  }

  servers::Server server_;
  std::string prefix_;
  Handle<rd_kafka_s> admin_;
};

}  // namespace dovetail::kafka
