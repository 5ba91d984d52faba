// An application's consumer reads each broker, with its inbox in each database: events that come
// twice are applied once, in the order of their keys, and a new session does not see them again.
#include "proofs/brokers/origins.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/event/batch.h"
#include "dovetail/postgres_consumer.h"
#include "dovetail/sqlite.h"
#include "kafka/test_events.h"
#include "kit/eventually.h"
#include "postgres/testing/test_database.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::live {
namespace {

// A service with its own database, in which its effects are.
class Service {
 public:
  virtual ~Service() = default;
  virtual std::unique_ptr<Consumer> open(Origin origin) = 0;
  virtual std::int64_t number(const std::string& sql) = 0;
};

ConsumerOptions options_with(std::string database, Origin origin) {
  ConsumerOptions options;
  options.database = std::move(database);
  options.name = "stock";
  options.origin = std::move(origin);
  return options;
}

template <class Opened>
std::unique_ptr<Consumer> checked(Result<std::unique_ptr<Opened>> opened) {
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
  return opened ? std::move(*opened) : nullptr;
}

class SqliteService final : public Service {
 public:
  SqliteService() {
    application_.run("CREATE TABLE effect (n INTEGER PRIMARY KEY, key TEXT, payload INTEGER)");
  }
  std::unique_ptr<Consumer> open(Origin origin) override {
    return checked(sqlite::Consumer::open(
        options_with(file_.path, std::move(origin)),
        [](sqlite3* transaction, const Event& event) -> Status {
          auto insert = sqlite::Statement::prepare(
              transaction, "INSERT INTO effect (key, payload) VALUES (?1, CAST(?2 AS INTEGER))");
          if (!insert) return fail(insert.error());
          return insert->bind_text(1, event.aggregate_id).bind_text(2, event.payload).run();
        }));
  }
  std::int64_t number(const std::string& sql) override { return application_.number(sql); }

 private:
  sqlite::TestFile file_;
  sqlite::Application application_{file_.path};
};

class PostgresService final : public Service {
 public:
  PostgresService() {
    postgres::must(connection_,
                   "CREATE TABLE effect (n bigint GENERATED ALWAYS AS IDENTITY, key text, payload "
                   "int)");
  }
  std::unique_ptr<Consumer> open(Origin origin) override {
    return checked(postgres::Consumer::open(
        options_with(database_.conninfo, std::move(origin)),
        [](postgres::Invocation& invocation, const Event& event) {
          return invocation.queue("INSERT INTO effect (key, payload) VALUES ($1, $2::int)",
                                  {event.aggregate_id, event.payload});
        }));
  }
  std::int64_t number(const std::string& sql) override {
    return postgres::number(connection_, sql);
  }

 private:
  postgres::TestDatabase database_;
  postgres::Connection connection_ = database_.connect();
};

// Runs a consumer until the end of the scope.
class Running {
 public:
  explicit Running(Consumer& consumer)
      : thread_([&consumer](const std::stop_token& stop) {
          const Status ended = consumer.run(stop);
          EXPECT_TRUE(ended) << ended.error().text;
        }) {}

 private:
  std::jthread thread_;
};

class Origins : public testing::TestWithParam<OriginCase> {
 protected:
  void deliver_to(Service& service) {
    const std::unique_ptr<OriginUnderTest> broker = GetParam().make();
    const Result<Origin> origin = broker->origin();
    ASSERT_TRUE(origin) << origin.error().text;
    {
      const auto consumer = service.open(*origin);
      ASSERT_TRUE(consumer);
      const Running running(*consumer);
      send_all_twice(*broker);
      ASSERT_TRUE(eventually([&] { return consumer->counts().applied == kEvents + 1; }));
      EXPECT_EQ(consumer->counts().duplicates, GetParam().drops_repeats ? 0U : kEvents);
      EXPECT_EQ(consumer->counts().parked, 0U);
    }
    EXPECT_EQ(service.number("SELECT count(*) FROM effect"), kEvents + 1);
    EXPECT_EQ(service.number("SELECT count(*) FROM effect AS a JOIN effect AS b ON a.n < b.n AND "
                             "a.key = b.key AND a.payload > b.payload"),
              0)
        << "order along each key";

    const auto again = service.open(*origin);
    ASSERT_TRUE(again);
    const Running running(*again);
    send(*broker, {&events_.make("orders.events", "1", "100")});
    ASSERT_TRUE(eventually([&] { return again->counts().applied == 1; }));
    EXPECT_EQ(again->counts().duplicates, 0U) << "what was settled does not come again";
  }

 private:
  static constexpr std::uint32_t kEvents = 20;

  void send_all_twice(OriginUnderTest& broker) {
    std::vector<const Event*> all;
    for (std::uint32_t i = 0; i < kEvents; ++i)
      all.push_back(&events_.make("orders.events", std::to_string(i % 4), std::to_string(i)));
    send(broker, all);
    send(broker, all);
    send(broker, {&events_.make("orders.events", "0", "99")});
  }
  void send(OriginUnderTest& broker, const std::vector<const Event*>& events) {
    const std::unique_ptr<Sink> sink = broker.sink();
    ASSERT_TRUE(eventually([&] { return sink->open().has_value(); }));
    for (const Event* event : events) {
      const Fate fate = kafka::deliver(*sink, {event})[0].fate;
      ASSERT_TRUE(fate == Fate::confirmed || fate == Fate::duplicate);
    }
  }

  TestEvents events_;
};

TEST_P(Origins, AreReadOnceIntoSqlite) {
  SqliteService service;
  deliver_to(service);
}

TEST_P(Origins, AreReadOnceIntoPostgres) {
  PostgresService service;
  deliver_to(service);
}

std::vector<OriginCase> cases() {
  return {
#ifdef DOVETAIL_HAS_KAFKA
      kKafkaOrigin,
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
      kRabbitmqOrigin,
#endif
#ifdef DOVETAIL_HAS_NATS
      kNatsOrigin,
#endif
#ifdef DOVETAIL_HAS_REDIS
      kRedisOrigin,
#endif
#ifdef DOVETAIL_HAS_HTTP
      kHttpOrigin,
#endif
  };
}

INSTANTIATE_TEST_SUITE_P(Brokers, Origins, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace dovetail::live
