#include "postgres/mapped/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "kit/results.h"

namespace dovetail::postgres {
namespace {

TableMapping valid() { return *mapping_preset("status"); }

TEST(TableMapping, EveryPresetIsValidAsItStands) {
  EXPECT_EQ(mapping_presets().size(), 5u);
  for (const std::string_view name : mapping_presets()) {
    const Result<TableMapping> mapping = mapping_preset(name);
    ASSERT_TRUE(mapping) << name;
    const Status checked = check_mapping(*mapping);
    EXPECT_TRUE(checked) << name << ": " << text_of(checked);
  }
}

TEST(TableMapping, PresetTakesAnotherTable) {
  EXPECT_EQ(mapping_preset("debezium", "shop.outbox")->table, "shop.outbox");
  EXPECT_EQ(mapping_preset("message")->table, "OutboxMessage");
}

TEST(TableMapping, UnknownPresetIsRefusedWithTheOnesThereAre) {
  const Result<TableMapping> mapping = mapping_preset("rails");
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, Errc::rejected);
  EXPECT_NE(mapping.error().text.find("processed_at"), std::string::npos);
}

TEST(TableMapping, NamesAreLettersDigitsUnderscoreAndDollarOnly) {
  EXPECT_TRUE(is_allowed_name("outbox"));
  EXPECT_TRUE(is_allowed_name("_Outbox$1"));
  EXPECT_TRUE(is_allowed_name(std::string(63, 'a')));
  for (const std::string& name :
       {std::string(), std::string("1a"), std::string("a b"), std::string("a\"b"),
        std::string("a;b"), std::string("a.b"), std::string("a--b"), std::string("a'b"),
        std::string("a(b)"), std::string("a\0b", 3), std::string("a\nb"), std::string("\xc3\xa4"),
        std::string(64, 'a')})
    EXPECT_FALSE(is_allowed_name(name)) << name;
}

TEST(TableMapping, NoConfigurableNameTakesSql) {
  const std::vector<std::pair<std::string, std::function<std::string&(TableMapping&)>>> names = {
      {"table", [](TableMapping& m) -> std::string& { return m.table; }},
      {"id", [](TableMapping& m) -> std::string& { return m.id; }},
      {"topic", [](TableMapping& m) -> std::string& { return m.topic; }},
      {"aggregate_type", [](TableMapping& m) -> std::string& { return m.aggregate_type; }},
      {"aggregate_id", [](TableMapping& m) -> std::string& { return m.aggregate_id; }},
      {"aggregate_version", [](TableMapping& m) -> std::string& { return m.aggregate_version; }},
      {"type", [](TableMapping& m) -> std::string& { return m.type; }},
      {"payload", [](TableMapping& m) -> std::string& { return m.payload; }},
      {"content_type", [](TableMapping& m) -> std::string& { return m.content_type; }},
      {"headers", [](TableMapping& m) -> std::string& { return m.headers; }},
      {"created_at", [](TableMapping& m) -> std::string& { return m.created_at; }},
      {"order_by", [](TableMapping& m) -> std::string& { return m.order_by; }},
      {"header_columns",
       [](TableMapping& m) -> std::string& {
         return m.header_columns.emplace_back(HeaderColumn{"x", "x"}).column;
       }},
      {"pending", [](TableMapping& m) -> std::string& { return m.pending[0].column; }},
      {"when_delivered",
       [](TableMapping& m) -> std::string& { return m.when_delivered[0].column; }},
      {"when_parked", [](TableMapping& m) -> std::string& { return m.when_parked[0].column; }},
      {"when_discarded",
       [](TableMapping& m) -> std::string& { return m.when_discarded[0].column; }},
  };
  for (const auto& [setting, name] : names) {
    for (const std::string& attack :
         {std::string("x\"; DROP TABLE victim; --"), std::string("x\" OR \"1\"=\"1"),
          std::string("(SELECT 1)"), std::string("x; DELETE FROM victim"), std::string("x\0y", 3),
          std::string("x/**/y"), std::string("\"x\"")}) {
      TableMapping mapping = valid();
      name(mapping) = attack;
      const Status checked = check_mapping(mapping);
      ASSERT_FALSE(checked) << setting << " took " << attack;
      EXPECT_EQ(checked.error().code, Errc::rejected);
      EXPECT_NE(checked.error().text.find(setting), std::string::npos) << checked.error().text;
    }
  }
}

TEST(TableMapping, SchemaAndTableAreCheckedApart) {
  TableMapping mapping = valid();
  mapping.table = "shop.outbox";
  EXPECT_TRUE(check_mapping(mapping));
  for (const char* table : {"shop.", ".outbox", "a.b.c", "sh op.outbox"}) {
    mapping.table = table;
    EXPECT_FALSE(check_mapping(mapping)) << table;
  }
}

TEST(TableMapping, MarkThatLeavesTheRowPendingIsRefused) {
  TableMapping mapping = valid();
  mapping.when_delivered = {{"sent_at", Assignment::Value::now}};
  EXPECT_FALSE(check_mapping(mapping));
  mapping.when_delivered = {{"status", Assignment::Value::text, "PENDING"}};
  EXPECT_FALSE(check_mapping(mapping));
  mapping = *mapping_preset("sent_at");
  mapping.when_delivered = {{"sent_at", Assignment::Value::null}};
  EXPECT_FALSE(check_mapping(mapping));
  mapping = valid();
  mapping.when_discarded = {{"sent_at", Assignment::Value::now}};
  EXPECT_FALSE(check_mapping(mapping));
}

TEST(TableMapping, SentRowHasNoReason) {
  TableMapping mapping = valid();
  mapping.when_delivered.push_back({"error", Assignment::Value::reason});
  EXPECT_FALSE(check_mapping(mapping));
}

TEST(TableMapping, HeaderHasANameThatCanTravel) {
  TableMapping mapping = valid();
  mapping.header_columns = {{"trace", "trace-id"}};
  EXPECT_TRUE(check_mapping(mapping));
  for (const char* name : {"", "trace id", "trace:id", "trace\n"}) {
    mapping.header_columns[0].header = name;
    EXPECT_FALSE(check_mapping(mapping)) << name;
  }
}

TEST(TableMapping, ColumnIsSetOnce) {
  TableMapping mapping = valid();
  mapping.when_delivered.push_back(mapping.when_delivered.front());
  EXPECT_FALSE(check_mapping(mapping));
}

TEST(TableMapping, ConditionsAreReadFromText) {
  EXPECT_EQ(parse_pending("status = PENDING")->values, std::vector<std::string>{"PENDING"});
  EXPECT_EQ(parse_pending("status=A| 'B C'")->values, (std::vector<std::string>{"A", "B C"}));
  const Result<PendingCondition> null = parse_pending(" ProcessedOn IS NULL ");
  ASSERT_TRUE(null);
  EXPECT_EQ(null->column, "ProcessedOn");
  EXPECT_TRUE(null->values.empty());
  EXPECT_EQ(parse_pending("status = 'A|B'|C")->values, (std::vector<std::string>{"A|B", "C"}));
  EXPECT_EQ(parse_pending("at = 2026-01-31T10:00:00+01:00")->values.size(), 1u);
  for (const char* text : {"", "status", "status =", "status = A|", "is null", "a b is null",
                           "status is not null", "a is null and b is null"})
    EXPECT_FALSE(parse_pending(text)) << text;
}

TEST(TableMapping, WhatLooksLikeSqlIsRefusedAndNotTakenForAValue) {
  for (const char* text : {"x = 'NEW' OR 1=1", "status = 1 OR 1 = 1; --\"", "x = 'NEW' AND y = 2",
                           "x = A B", "x = = 1", "x = lower('A')", "x = ANY ('{A}')", "x = 'A",
                           "x <> 'A'", "x >= 3", "x = A, y = B"}) {
    const Result<PendingCondition> parsed = parse_pending(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::rejected);
  }
  EXPECT_NE(parse_pending("x = 'NEW' OR 1=1").error().text.find("single quotes"),
            std::string::npos);
  for (const char* text : {"x = 'A' || y", "x = y + 1", "x = upper(reason())", "x = A, y = B"})
    EXPECT_FALSE(parse_assignment(text)) << text;
}

TEST(TableMapping, AssignmentsAreReadFromText) {
  using Value = Assignment::Value;
  EXPECT_EQ(parse_assignment("sent_at = now()")->value, Value::now);
  EXPECT_EQ(parse_assignment("error = NULL")->value, Value::null);
  EXPECT_EQ(parse_assignment("error = reason()")->value, Value::reason);
  EXPECT_EQ(parse_assignment("tries = attempts()")->value, Value::attempts);
  EXPECT_EQ(parse_assignment("status = 'null'")->literal, "null");
  EXPECT_FALSE(parse_assignment("status = it''s"));
  EXPECT_EQ(parse_assignment("status = 'it''s'")->literal, "it's");
  EXPECT_EQ(parse_assignment("status = SENT")->literal, "SENT");
  EXPECT_FALSE(parse_assignment("status"));
  EXPECT_FALSE(parse_assignment("status ="));
  EXPECT_FALSE(parse_assignment("sta tus = 1"));
}

}  // namespace
}  // namespace dovetail::postgres
