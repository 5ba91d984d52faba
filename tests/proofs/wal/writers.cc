#include "proofs/wal/writers.h"

#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <unistd.h>

#include <map>
#include <set>

#include "core/clock.h"
#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/connection/connection.h"
#include "postgres/operate/maintenance.h"
#include "postgres/schema/schema.h"
#include "proofs/wal/delivery_book.h"

namespace dovetail::shop {
namespace {

using postgres::Connection;
using postgres::Params;
using postgres::Rows;

constexpr std::string_view kInsert =
    "INSERT INTO dovetail.outbox (id, aggregate_type, aggregate_id, type, payload, "
    "aggregate_version) SELECT id, 'account', key, 'changed', payload, version "
    "FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY "
    "AS event (id, key, payload, version, place) ORDER BY place";

// What one transaction will publish.
struct NewVersion {
  std::string key;
  std::int64_t version;
  EventId id = new_event_id();
};
using Versions = std::vector<NewVersion>;

Status changed(const Result<Rows>& rows) { return rows ? Status{} : fail(rows.error()); }

Status put_copy(PGconn* connection, const std::string& lines) {
  PQclear(PQexec(connection,
                 "COPY dovetail.outbox (id, aggregate_type, aggregate_id, type, payload, "
                 "aggregate_version) FROM STDIN"));
  const bool put = PQputCopyData(connection, lines.data(), static_cast<int>(lines.size())) == 1 &&
                   PQputCopyEnd(connection, nullptr) == 1;
  PGresult* const result = PQgetResult(connection);
  const bool done = put && PQresultStatus(result) == PGRES_COMMAND_OK;
  PQclear(result);
  while (PGresult* const rest = PQgetResult(connection)) PQclear(rest);
  if (done) return {};
  return fail(Errc::rejected, PQerrorMessage(connection));
}

// One thread.
class Writer {
 public:
  Writer(Connection connection, const WalWritersOptions& options, std::uint64_t number)
      : connection_(std::move(connection)),
        options_(options),
        number_(number),
        random_(options.seed * 1000 + number) {}

  Form choose() {
    constexpr std::array kOften = {Form::published, Form::published,   Form::savepoints,
                                   Form::prepared,  Form::many_values, Form::copied,
                                   Form::aborted,   Form::published};
    if (random_.chance(0.02)) return Form::table_changed;
    if (random_.chance(0.03)) return Form::prepared_in_vain;
    return kOften.at(random_.below(kOften.size()));
  }

  Status transaction(Form form) {
    if (form == Form::table_changed) return change_table();
    DOVETAIL_TRY(connection_.execute("BEGIN"));
    // Before any account, so that nobody who waits for a change of the table holds an account.
    DOVETAIL_TRY(connection_.execute("LOCK TABLE dovetail.outbox IN ROW EXCLUSIVE MODE"));
    DOVETAIL_TRY(write(form));
    pause(options_.hold);
    if (form == Form::prepared || form == Form::prepared_in_vain)
      return prepare(form == Form::prepared);
    return connection_.execute(form == Form::aborted ? "ROLLBACK" : "COMMIT");
  }

  // The versions for `rows` changes, in order along each key.
  Result<Versions> change_accounts(std::int64_t rows) {
    std::map<std::int64_t, std::int64_t> counts;  // in order, so that writers do not deadlock
    const auto touched =
        std::max<std::uint64_t>(1, std::min<std::uint64_t>(static_cast<std::uint64_t>(rows), 8));
    std::vector<std::int64_t> keys;
    for (std::uint64_t i = 0; i < touched; ++i)
      keys.push_back(
          static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(options_.keys))));
    std::vector<std::int64_t> places;
    for (std::int64_t row = 0; row < rows; ++row) {
      places.push_back(keys[random_.below(keys.size())]);
      ++counts[places.back()];
    }
    for (auto& [key, count] : counts) {
      const Result<Rows> row = connection_.query(
          "UPDATE account SET version = version + $2 WHERE key = $1 RETURNING version",
          Params().int8(key).int8(count));
      if (!row) return fail(row.error());
      count = row->int8(0, 0) - count;  // the version before
    }
    Versions versions;
    for (const std::int64_t key : places)
      versions.push_back({"a" + std::to_string(key), ++counts[key]});
    return versions;
  }

  Status copy(const Versions& versions) {
    std::string lines;
    for (const NewVersion& one : versions)
      lines += one.id.to_string() + "\taccount\t" + one.key + "\tchanged\t" +
               payload_of(one.key, one.version) + "\t" + std::to_string(one.version) + "\n";
    return put_copy(connection_.get(), lines);
  }

  void pause(std::chrono::microseconds at_most) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_.below(static_cast<std::uint64_t>(at_most.count()) + 1)));
  }

 private:
  std::int64_t rows(Form form) {
    if (form == Form::published || form == Form::savepoints)
      return 1 + static_cast<std::int64_t>(random_.below(8));
    // Sometimes the maximum, mostly few.
    if (random_.chance(0.02)) return options_.rows_max;
    return 1 + static_cast<std::int64_t>(random_.below(
                   static_cast<std::uint64_t>(std::min<std::int64_t>(options_.rows_max, 200))));
  }

  Status write(Form form) {
    const Result<Versions> versions = change_accounts(rows(form));
    if (!versions) return fail(versions.error());
    switch (form) {
      case Form::published:
        for (const NewVersion& one : *versions) DOVETAIL_TRY(publish(one));
        return {};
      case Form::savepoints:
        for (const NewVersion& one : *versions) DOVETAIL_TRY(publish_among_savepoints(one));
        return {};
      case Form::copied:
      case Form::aborted:
        return copy(*versions);
      default:
        return insert(*versions);
    }
  }

  Status publish(const NewVersion& one) {
    const std::string payload = payload_of(one.key, one.version);
    NewEvent event;
    event.id = one.id;
    event.aggregate_type = "account";
    event.aggregate_id = one.key;
    event.type = "changed";
    event.payload = payload;
    event.aggregate_version = one.version;
    const Result<EventId> id = postgres::publish(connection_.get(), event);
    return id ? Status{} : fail(id.error());
  }

  Status publish_among_savepoints(const NewVersion& one) {
    DOVETAIL_TRY(connection_.execute("SAVEPOINT mistake"));
    DOVETAIL_TRY(publish({one.key, -one.version}));
    if (random_.chance(0.5)) {
      // A kept savepoint inside one that is rolled back is rolled back, too.
      DOVETAIL_TRY(connection_.execute("SAVEPOINT inner_mistake"));
      DOVETAIL_TRY(publish({one.key, -one.version}));
      DOVETAIL_TRY(connection_.execute("RELEASE SAVEPOINT inner_mistake"));
    }
    DOVETAIL_TRY(connection_.execute("ROLLBACK TO SAVEPOINT mistake; SAVEPOINT kept"));
    DOVETAIL_TRY(publish(one));
    return connection_.execute("RELEASE SAVEPOINT kept");
  }

  Status insert(const Versions& versions) {
    std::vector<EventId> ids;
    std::vector<std::string> payloads;
    std::vector<std::string_view> keys;
    std::vector<std::int64_t> numbers;
    for (const NewVersion& one : versions) {
      ids.push_back(one.id);
      payloads.push_back(payload_of(one.key, one.version));
      keys.push_back(one.key);
      numbers.push_back(one.version);
    }
    const std::vector<std::string_view> views(payloads.begin(), payloads.end());
    return changed(connection_.query(
        kInsert, Params().uuid_array(ids).text_array(keys).bytea_array(views).int8_array(numbers)));
  }

  Status prepare(bool commits) {
    // Names belong to the server, not to a database.
    static std::atomic<std::uint64_t> prepared{0};
    const std::string name =
        "'crash_" + std::to_string(::getpid()) + "_" + std::to_string(++prepared) + "'";
    DOVETAIL_TRY(connection_.execute("PREPARE TRANSACTION " + name));
    pause(options_.hold);
    return connection_.execute((commits ? "COMMIT PREPARED " : "ROLLBACK PREPARED ") + name);
  }

  // A column of this writer; those of others come and go meanwhile.
  Status change_table() {
    const std::string column = "extra_" + std::to_string(number_);
    has_column_ = !has_column_;
    if (!has_column_)
      return connection_.execute("ALTER TABLE dovetail.outbox DROP COLUMN " + column);
    return connection_.execute("ALTER TABLE dovetail.outbox ADD COLUMN " + column +
                               (random_.chance(0.5) ? " text" : " int NOT NULL DEFAULT 7"));
  }

  Connection connection_;
  const WalWritersOptions& options_;
  const std::uint64_t number_;
  Random random_;
  bool has_column_ = false;
};

}  // namespace

std::string_view to_string(Form form) {
  constexpr std::array<std::string_view, kForms> kNames = {
      "published", "with savepoints",  "of many values", "copied",
      "prepared",  "prepared in vain", "aborted",        "changes of the table"};
  return kNames.at(static_cast<std::size_t>(form));
}

Status open_accounts(const std::string& conninfo, std::int64_t keys) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(postgres::create_schema(*connection));
  const auto maintained = postgres::maintain(conninfo, {});
  if (!maintained) return fail(maintained.error());
  DOVETAIL_TRY(
      connection->execute("CREATE TABLE account (key bigint PRIMARY KEY, version bigint NOT NULL) "
                          "WITH (fillfactor = 50)"));
  return changed(connection->query(
      "INSERT INTO account SELECT k, 0 FROM generate_series(0, $1 - 1) AS k", Params().int8(keys)));
}

Status copy_in(const std::string& conninfo, std::int64_t rows, std::int64_t keys) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  WalWritersOptions options;
  options.keys = keys;
  const auto pg = connection->get();
  Writer writer(std::move(*connection), options, 0);
  PQclear(PQexec(pg, "BEGIN"));
  const Result<Versions> versions = writer.change_accounts(rows);
  if (!versions) return fail(versions.error());
  DOVETAIL_TRY(writer.copy(*versions));
  PGresult* const committed = PQexec(pg, "COMMIT");
  const bool done = PQresultStatus(committed) == PGRES_COMMAND_OK;
  PQclear(committed);
  return done ? Status{} : fail(Errc::unavailable, "the copy was not committed");
}

WalWriters::WalWriters(WalWritersOptions options) : options_(std::move(options)) {
  for (std::size_t i = 0; i < options_.writers; ++i) {
    threads_.emplace_back([this, i](std::stop_token stop) {
      Result<Connection> connection = Connection::open(options_.conninfo);
      ASSERT_TRUE(connection) << connection.error().text;
      Writer writer(std::move(*connection), options_, i);
      while (!stop.stop_requested()) {
        if (options_.may_write && !options_.may_write()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          continue;
        }
        const Form form = writer.choose();
        const Status written = writer.transaction(form);
        ASSERT_TRUE(written) << to_string(form) << ": " << written.error().text;
        ++counts_.at(static_cast<std::size_t>(form));
        writer.pause(options_.pause);
      }
    });
  }
}

void WalWriters::stop() { threads_.clear(); }

std::uint64_t WalWriters::transactions() const {
  std::uint64_t sum = 0;
  for (const auto& count : counts_) sum += count;
  return sum;
}

std::string WalWriters::summary() const {
  std::string all;
  for (std::size_t i = 0; i < kForms; ++i)
    all += (i == 0 ? "" : ", ") + std::to_string(counts_.at(i)) + " " +
           std::string(to_string(static_cast<Form>(i)));
  return all;
}

}  // namespace dovetail::shop
