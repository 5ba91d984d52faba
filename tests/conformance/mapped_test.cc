// A mapped table passes the suite that every source passes, on a real server: read by itself, the
// same through a pooler in transaction mode, and out of the log.
#include <deque>
#include <mutex>

#include "conformance/source_suite.h"
#include "host/host.h"
#include "postgres/mapped_publication.h"
#include "postgres/mapped_rows.h"
#include "postgres/mapped_source.h"
#include "postgres/mapped_windows.h"
#include "postgres/schema.h"
#include "postgres/test_database.h"
#include "postgres/wal_source.h"

namespace dovetail::conformance {
namespace {

using postgres::Assignment;
using postgres::Connection;
using postgres::MappedSource;
using postgres::Params;
using postgres::Reader;
using postgres::TableMapping;
using postgres::TestDatabase;

enum class Path { direct, pooled, log };

class OwningSource final : public Source {
 public:
  OwningSource(const std::string& conninfo, TableMapping mapping)
      : reader_{conninfo, "test"}, source_(reader_, std::move(mapping), system_clock()) {}
  Status open() override {
    reader_.connection.close();
    return source_.open();
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    return source_.read(out, limits, stop);
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }

 private:
  Reader reader_;
  MappedSource source_;
};

// Out of the log: what the table gives before that is kept for the reads.
class OwningLogSource final : public Source {
 public:
  OwningLogSource(const std::string& conninfo, const TableMapping& mapping)
      : reader_{conninfo, "test"},
        windows_(reader_, mapping, system_clock()),
        source_(reader_, windows_, system_clock(), metrics_, options(mapping)) {}
  Status open() override {
    reader_.connection.close();
    early_.clear();
    DOVETAIL_TRY(source_.open());
    const auto end = std::chrono::steady_clock::now() + seconds(90);
    while (metrics_.streams == 0 && std::chrono::steady_clock::now() < end) {
      Batch batch;
      DOVETAIL_TRY(source_.read(batch, Limits{1, 1, milliseconds(5)}, {}));
      if (!batch.empty()) early_.push_back(std::move(batch));
    }
    EXPECT_EQ(metrics_.streams, 1U);
    return {};
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    DOVETAIL_TRY(source_.tend());
    if (early_.empty()) return source_.read(out, limits, stop);
    do {
      out.append(early_.front().events()[0]);
      early_.pop_front();
    } while (!early_.empty() && out.size() < limits.events_max &&
             out.bytes() + early_.front().bytes() <= limits.bytes_max);
    return {};
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }

 private:
  postgres::WalSourceOptions options(const TableMapping& mapping) {
    postgres::WalSourceOptions options;
    options.mode = postgres::ReadMode::wal;
    options.publication = postgres::publication_of("test", mapping);
    options.checks_publication = false;
    options.make_rows = [this, mapping] {
      return postgres::mapped_rows(windows_.table(), mapping, windows_.last_position());
    };
    return options;
  }

  RelayMetrics metrics_;
  Reader reader_;
  postgres::MappedWindows windows_;
  postgres::WalSource source_;
  std::deque<Batch> early_;
};

template <Path kPath>
class MappedTable final : public SourceUnderTest {
 public:
  MappedTable() {
    EXPECT_TRUE(create_schema(application_));
    postgres::must(
        application_,
        "CREATE TABLE events (number bigint GENERATED ALWAYS AS IDENTITY, id uuid PRIMARY KEY, "
        "topic text, aggregate_type text, aggregate_id text, version bigint, type text, "
        "content_type text, headers text, payload bytea, at timestamptz DEFAULT clock_timestamp(), "
        "state text DEFAULT 'new')");
    conninfo_ = kPath == Path::pooled
                    ? servers::with_database(servers::find("pgbouncer").conninfo, database_.name)
                    : database_.conninfo;
    mapping_.table = "events";
    mapping_.topic = "topic";
    mapping_.aggregate_type = "aggregate_type";
    mapping_.aggregate_id = "aggregate_id";
    mapping_.aggregate_version = "version";
    mapping_.type = "type";
    mapping_.content_type = "content_type";
    mapping_.headers = "headers";
    mapping_.created_at = "at";
    mapping_.order_by = "number";
    mapping_.from_log = kPath == Path::log;
    if (mapping_.from_log) return;
    mapping_.pending = {{"state", {"new"}}};
    mapping_.when_sent = {{"state", Assignment::Value::text, "sent"}};
    mapping_.when_parked = {{"state", Assignment::Value::text, "parked"}};
  }
  SourceAbilities abilities() const override {
    SourceAbilities abilities;
    if (mapping_.from_log) abilities.arrival_max = milliseconds(300);
    return abilities;
  }
  std::unique_ptr<Source> make() override {
    if (mapping_.from_log) return std::make_unique<OwningLogSource>(conninfo_, mapping_);
    return std::make_unique<OwningSource>(conninfo_, mapping_);
  }
  void publish(const NewEvent& event) override {
    const std::lock_guard lock(mutex_);
    std::string headers;
    if (!event.headers.empty()) headers = encode_headers(event.headers).value();
    const Result<postgres::Rows> done = application_.query(
        "INSERT INTO events (id, topic, aggregate_type, aggregate_id, version, type, content_type, "
        "headers, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        Params()
            .uuid(event.id.value_or(new_event_id()))
            .text(event.topic)
            .text(event.aggregate_type)
            .text(event.aggregate_id)
            .int8(event.aggregate_version)
            .text(event.type)
            .text(event.content_type)
            .text(headers)
            .bytea(event.payload));
    EXPECT_TRUE(done) << postgres::text_of(done);
  }

 private:
  TestDatabase database_;
  std::mutex mutex_;
  Connection application_ = database_.connect();
  std::string conninfo_;
  TableMapping mapping_;
};

template <Path kPath>
std::unique_ptr<SourceUnderTest> make() {
  return std::make_unique<MappedTable<kPath>>();
}

const auto kSources =
    testing::Values(SourceCase{"direct", make<Path::direct>},
                    SourceCase{"pooled", make<Path::pooled>}, SourceCase{"log", make<Path::log>});
INSTANTIATE_TEST_SUITE_P(MappedTable, SourceSuite, kSources, case_name<SourceCase>);

}  // namespace
}  // namespace dovetail::conformance
