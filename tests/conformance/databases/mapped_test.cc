// A mapped table passes the source suite on a real server: read as a table, through a pooler in
// transaction mode, and from the WAL.
#include <mutex>

#include "conformance/databases/postgres_sources.h"
#include "postgres/mapped/publication.h"
#include "postgres/mapped/rows.h"
#include "postgres/mapped/source.h"
#include "postgres/mapped/windows.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::conformance {
namespace {

using postgres::Assignment;
using postgres::Connection;
using postgres::MappedSource;
using postgres::MappedWindows;
using postgres::Params;
using postgres::Reader;
using postgres::TableMapping;
using postgres::TestDatabase;

enum class Path { direct, pooled, log };

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
    mapping_.from_wal = kPath == Path::log;
    if (mapping_.from_wal) return;
    mapping_.pending = {{"state", {"new"}}};
    mapping_.when_delivered = {{"state", Assignment::Value::text, "sent"}};
    mapping_.when_parked = {{"state", Assignment::Value::text, "parked"}};
  }
  SourceAbilities abilities() const override {
    SourceAbilities abilities;
    if (mapping_.from_wal) abilities.arrival_max = milliseconds(300);
    return abilities;
  }
  std::unique_ptr<Source> make() override {
    Reader reader{conninfo_, "test"};
    if (!mapping_.from_wal)
      return std::make_unique<OwningSource<MappedSource>>(std::move(reader), mapping_,
                                                          system_clock());
    const auto options = [this](MappedWindows& windows) { return log_options(windows); };
    return std::make_unique<OwningLogSource<MappedWindows>>(std::move(reader), options, mapping_,
                                                            system_clock());
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
    EXPECT_TRUE(done) << text_of(done);
  }

 private:
  postgres::WalSourceOptions log_options(MappedWindows& windows) const {
    postgres::WalSourceOptions options;
    options.reading.mode = postgres::ReadMode::wal;
    options.publication = postgres::publication_of("test", mapping_);
    options.checks_publication = false;
    options.make_rows = [&windows, mapping = mapping_] {
      return postgres::mapped_rows(windows.table(), mapping, windows.last_position());
    };
    return options;
  }

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
