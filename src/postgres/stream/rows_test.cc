#include "postgres/stream/rows.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "postgres/testing/test_pgoutput.h"

namespace dovetail::postgres {
namespace {

using pgoutput::Value;
using namespace std::string_view_literals;

const std::vector<std::string> kColumns = {
    "id",   "seq",          "xid",     "topic",   "aggregate_type",    "aggregate_id",
    "type", "content_type", "headers", "payload", "aggregate_version", "created_at"};
constexpr std::uint32_t kTable = 42;

// A row by the names of its columns, in either form.
class OutboxRowsTest : public testing::Test {
 protected:
  void describe(std::vector<std::string> columns) {
    columns_ = std::move(columns);
    pgoutput::Relation relation{kTable, "dovetail", "outbox"};
    for (const std::string& column : columns_) relation.columns.push_back({column, 25});
    const Status described = rows_->describe(relation);
    ASSERT_TRUE(described) << described.error().text;
  }
  Status append() {
    std::vector<Value> values;
    for (const std::string& column : columns_) values.push_back(row_[column]);
    return rows_->append(kTable, values, begin_, out_);
  }
  void set(const std::string& column, Value::Form form, std::string_view bytes) {
    row_[column] = {form, bytes};
  }
  const Event& last() { return out_.events().back(); }

  std::unique_ptr<WalRows> rows_ = outbox_rows();
  std::vector<std::string> columns_;
  pgoutput::Begin begin_{{1000}, WallTime{std::chrono::seconds{5}}, 7};
  Batch out_;
  std::map<std::string, Value> row_ = {
      {"id", {Value::Form::binary, "0123456789abcdef"}},
      {"seq", {Value::Form::binary, "\0\0\0\0\0\0\0\x09"sv}},
      {"xid", {Value::Form::binary, "\0\0\0\0\0\0\0\x07"sv}},
      {"topic", {Value::Form::binary, "orders"}},
      {"aggregate_type", {Value::Form::binary, "order"}},
      {"aggregate_id", {Value::Form::binary, "17"}},
      {"type", {Value::Form::binary, "placed"}},
      {"content_type", {Value::Form::binary, "text/plain"}},
      {"headers", {Value::Form::binary, R"({"a":"b"})"}},
      {"payload", {Value::Form::binary, "pay\0load"sv}},
      {"aggregate_version", {Value::Form::binary, "\0\0\0\0\0\0\0\x03"sv}},
      {"created_at", {Value::Form::binary, "\0\0\0\0\0\0\0\x01"sv}}};
};

void expect_the_event(const Event& event) {
  EXPECT_EQ(std::string(event.id.bytes.begin(), event.id.bytes.end()), "0123456789abcdef");
  EXPECT_EQ(event.position, 9);
  EXPECT_EQ(event.key_hash, key_hash("order", "17"));
  EXPECT_EQ(event.topic, "orders");
  EXPECT_EQ(event.aggregate_type, "order");
  EXPECT_EQ(event.aggregate_id, "17");
  EXPECT_EQ(event.type, "placed");
  EXPECT_EQ(event.content_type, "text/plain");
  EXPECT_EQ(event.headers, R"({"a":"b"})");
  EXPECT_EQ(event.payload, "pay\0load"sv);
  EXPECT_EQ(event.aggregate_version, 3);
  EXPECT_EQ(event.created_at, WallTime{std::chrono::microseconds{kEpochOffset + 1}});
  EXPECT_EQ(event.defect, "");
}

TEST_F(OutboxRowsTest, ARowInBinaryFormBecomesItsEvent) {
  describe(kColumns);
  ASSERT_TRUE(append());
  expect_the_event(last());
}

TEST_F(OutboxRowsTest, ARowInTextFormBecomesTheSameEvent) {
  describe(kColumns);
  for (auto& [name, value] : row_) value.form = Value::Form::text;
  set("id", Value::Form::text, "30313233-3435-3637-3839-616263646566");
  set("seq", Value::Form::text, "9");
  set("payload", Value::Form::text, "\\x706179006c6f6164");
  set("aggregate_version", Value::Form::text, "3");
  set("created_at", Value::Form::text, "2000-01-01 01:00:00.000001+01");
  ASSERT_TRUE(append());
  expect_the_event(last());
}

TEST_F(OutboxRowsTest, TheEventOwnsItsBytes) {
  describe(kColumns);
  std::string payload(5000, 'x');
  for (const auto form : {Value::Form::binary, Value::Form::text}) {
    set("payload", form, payload);
    ASSERT_TRUE(append());
  }
  std::fill(payload.begin(), payload.end(), 'y');
  for (const Event& event : out_.events()) EXPECT_EQ(event.payload, std::string(5000, 'x'));
}

TEST_F(OutboxRowsTest, ColumnsAreFoundByNameInAnyOrderAndAmongOthers) {
  std::vector<std::string> columns = kColumns;
  std::reverse(columns.begin(), columns.end());
  columns.insert(columns.begin() + 3, "another");
  describe(columns);
  ASSERT_TRUE(append());
  expect_the_event(last());
  describe(kColumns);  // the table was changed between two commits
  ASSERT_TRUE(append());
  expect_the_event(last());
}

TEST_F(OutboxRowsTest, AMissingColumnIsRejectedByItsName) {
  pgoutput::Relation relation{kTable, "dovetail", "outbox"};
  for (const std::string& column : kColumns)
    if (column != "headers") relation.columns.push_back({column, 25});
  const Status described = rows_->describe(relation);
  ASSERT_FALSE(described);
  EXPECT_EQ(described.error().code, Errc::rejected);
  EXPECT_NE(described.error().text.find("headers"), std::string::npos);
}

TEST_F(OutboxRowsTest, ARowOfATableThatWasNotDescribedIsCorrupt) {
  EXPECT_EQ(append().error().code, Errc::corrupt);
  describe(kColumns);
  const std::vector<Value> short_row(3);
  EXPECT_EQ(rows_->append(kTable, short_row, begin_, out_).error().code, Errc::corrupt);
  EXPECT_TRUE(out_.empty());
}

TEST_F(OutboxRowsTest, WhatCannotBeUnderstoodIsAnEventWithADefectThatNamesTheColumn) {
  describe(kColumns);
  for (const char* column : {"id", "seq", "topic", "aggregate_type", "aggregate_id", "type",
                             "content_type", "headers", "payload", "aggregate_version"}) {
    const Value kept = row_[column];
    row_[column] = Value{};
    ASSERT_TRUE(append()) << column;
    EXPECT_NE(last().defect.find("column " + std::string(column) + " "), std::string_view::npos)
        << last().defect;
    EXPECT_FALSE(last().aggregate_type.empty() || last().type.empty() ||
                 last().content_type.empty());
    row_[column] = kept;
  }
  EXPECT_EQ(out_.size(), 10U);
}

TEST_F(OutboxRowsTest, AnUnreadableIdIsReplacedByTheSameOneEachTimeAndAnotherForEachRow) {
  describe(kColumns);
  row_["id"] = Value{};
  ASSERT_TRUE(append());
  ASSERT_TRUE(append());
  rows_ = outbox_rows();
  describe(kColumns);
  ASSERT_TRUE(append());
  EXPECT_EQ(out_.events()[0].id, out_.events()[2].id);
  EXPECT_NE(out_.events()[0].id, out_.events()[1].id);
  begin_.commit = {2000};
  ASSERT_TRUE(append());
  EXPECT_NE(out_.events()[0].id, last().id);
  rows_ = outbox_rows();
  describe(kColumns);
  ASSERT_TRUE(append());
  EXPECT_EQ(out_.events()[3].id, last().id) << "wherever reading began";
}

TEST_F(OutboxRowsTest, ATimeInAnotherStyleIsReplacedByThatOfTheCommit) {
  describe(kColumns);
  set("created_at", Value::Form::text, "Tue 14 Nov 22:13:20 2023 UTC");
  ASSERT_TRUE(append());
  EXPECT_EQ(last().created_at, begin_.committed_at);
  EXPECT_EQ(last().defect, "");
}

}  // namespace
}  // namespace dovetail::postgres
