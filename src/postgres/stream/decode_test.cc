// The decoder against the output of a real server, which SQL shows, too.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "postgres/lane/reader.h"
#include "postgres/outbox/snapshot.h"
#include "postgres/schema/schema.h"
#include "postgres/stream/pgoutput.h"
#include "postgres/stream/rows.h"
#include "postgres/testing/test_database.h"
#include "postgres/testing/test_version.h"

namespace dovetail::postgres {
namespace {

class WalDecodeTest : public testing::Test {
 protected:
  WalDecodeTest() : owner_(database_.connect()) {
    EXPECT_TRUE(create_schema(owner_.get()));
    must(owner_, "SELECT pg_create_logical_replication_slot('" + database_.name + "', 'pgoutput')");
  }
  ~WalDecodeTest() override {
    must(owner_, "SELECT pg_drop_replication_slot('" + database_.name + "')");
  }

  void SetUp() override {
    if (is_before(owner_, 14)) GTEST_SKIP() << "PostgreSQL 14 brought messages and the binary form";
  }

  // Everything since the slot was made; `form` "true" means binary.
  const Batch& read(const std::string& form) {
    rows_ = outbox_rows();
    batch_.clear();
    const Result<Rows> changes = owner_.query(
        "SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', "
        "'1', 'publication_names', 'dovetail_outbox', 'messages', 'true', 'binary', $2)",
        Params().text(database_.name).text(form));
    EXPECT_TRUE(changes) << text_of(changes);
    for (std::size_t i = 0; changes && i < changes->size(); ++i) take(changes->bytea(i, 0));
    return batch_;
  }
  void take(std::string_view bytes) {
    std::vector<pgoutput::Value> values;
    const auto decoded = pgoutput::decode(bytes, values);
    ASSERT_TRUE(decoded) << text_of(decoded);
    Status done;
    if (const auto* begin = std::get_if<pgoutput::Begin>(&*decoded)) begin_ = *begin;
    if (const auto* relation = std::get_if<pgoutput::Relation>(&*decoded))
      done = rows_->describe(*relation);
    if (const auto* insert = std::get_if<pgoutput::Insert>(&*decoded))
      done = rows_->append(insert->relation, values, begin_, batch_);
    EXPECT_TRUE(done) << text_of(done);
  }
  std::vector<std::string> payloads() {
    std::vector<std::string> out;
    for (const Event& event : batch_.events()) out.emplace_back(event.payload);
    return out;
  }

  TestDatabase database_;
  Connection owner_;
  std::unique_ptr<WalRows> rows_;
  pgoutput::Begin begin_{};
  Batch batch_;
};

void expect_same(const Event& left, const Event& right) {
  EXPECT_EQ(left.id, right.id);
  EXPECT_EQ(left.position, right.position);
  EXPECT_EQ(left.key_hash, right.key_hash);
  EXPECT_EQ(left.topic, right.topic);
  EXPECT_EQ(left.aggregate_type, right.aggregate_type);
  EXPECT_EQ(left.aggregate_id, right.aggregate_id);
  EXPECT_EQ(left.type, right.type);
  EXPECT_EQ(left.content_type, right.content_type);
  EXPECT_EQ(left.headers, right.headers);
  EXPECT_EQ(left.payload, right.payload);
  EXPECT_EQ(left.aggregate_version, right.aggregate_version);
  EXPECT_EQ(left.created_at, right.created_at);
  EXPECT_EQ(left.defect, right.defect);
}

TEST_F(WalDecodeTest, ARowOfTheLogIsTheRowOfTheTableInBothForms) {
  must(owner_,
       "SELECT dovetail.publish('order', 'ключ', 'placed', decode(repeat('00ff5c27', 40000), "
       "'hex'), headers => '{\"a\": \"b\\\\c\"}', topic => 't', aggregate_version => -3, "
       "content_type => 'x/y')");
  must(owner_, "SELECT dovetail.publish('order', '', 'placed', '{}')");
  must(owner_,
       "INSERT INTO dovetail.outbox (id, aggregate_type, type, payload, created_at) VALUES "
       "('01890a5d-ac96-774b-bcce-b302099a8057', 'a', 'b', '\\x78', '1999-12-31 23:59:59.999999 "
       "+05:30'), (gen_random_uuid(), 'a', 'b', '\\x79', 'infinity')");
  const Result<Rows> rows = owner_.query(
      "SELECT seq, id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, "
      "aggregate_version, created_at FROM dovetail.outbox ORDER BY seq");
  ASSERT_TRUE(rows);
  Batch table;
  for (std::size_t i = 0; i < rows->size(); ++i) table.append(read_event(*rows, i));
  ASSERT_EQ(table.size(), 4U);
  for (const std::string settings :
       {"SET timezone = 'UTC'; SET bytea_output = 'hex'",
        "SET timezone = 'America/St_Johns'; SET bytea_output = 'escape'"}) {
    must(owner_, settings);
    for (const char* form : {"true", "false"}) {
      read(form);
      ASSERT_EQ(batch_.size(), 4U) << form;
      for (std::size_t i = 0; i < 4; ++i) expect_same(batch_.events()[i], table.events()[i]);
    }
  }
}

TEST_F(WalDecodeTest, TheTransactionsNumberIsTheOneThatSnapshotsKnow) {
  const Snapshot before = *Snapshot::parse(text(owner_, "SELECT pg_current_snapshot()::text"));
  must(owner_, "SELECT dovetail.publish('order', '1', 'placed', '{}')");
  read("true");
  EXPECT_FALSE(before.shows_short(begin_.xid));
  const Snapshot after = *Snapshot::parse(text(owner_, "SELECT pg_current_snapshot()::text"));
  EXPECT_TRUE(after.shows_short(begin_.xid));
}

TEST_F(WalDecodeTest, ColumnsThatComeAndGoBetweenCommitsDoNoHarm) {
  must(owner_, "SELECT dovetail.publish('order', '1', 'placed', 'one'::bytea)");
  must(owner_, "ALTER TABLE dovetail.outbox ADD COLUMN note text DEFAULT 'x'");
  must(owner_, "SELECT dovetail.publish('order', '1', 'placed', 'two'::bytea)");
  must(owner_, "ALTER TABLE dovetail.outbox DROP COLUMN note");
  must(owner_, "SELECT dovetail.publish('order', '1', 'placed', 'three'::bytea)");
  read("true");
  EXPECT_EQ(payloads(), (std::vector<std::string>{"one", "two", "three"}));
  for (const Event& event : batch_.events()) EXPECT_EQ(event.defect, "");
}

}  // namespace
}  // namespace dovetail::postgres
