#include "postgres/stream/pgoutput.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "postgres/testing/test_pgoutput.h"

namespace dovetail::postgres {
namespace {

using pgoutput::decode;
using pgoutput::Decoded;
using pgoutput::Value;
using namespace std::string_view_literals;

template <class T>
T decoded(std::string_view bytes, std::vector<Value>& values) {
  const Result<Decoded> out = decode(bytes, values);
  EXPECT_TRUE(out) << (out ? "" : out.error().text);
  EXPECT_TRUE(out && std::holds_alternative<T>(*out));
  return out && std::holds_alternative<T>(*out) ? std::get<T>(*out) : T{};
}
template <class T>
T decoded(std::string_view bytes) {
  std::vector<Value> values;
  return decoded<T>(bytes, values);
}

const WallTime kTime{std::chrono::microseconds{1'700'000'000'123'456}};
constexpr std::int64_t kStored = 1'700'000'000'123'456 - kEpochOffset;

TEST(CopyData, IsAPartOfTheLogOrASignOfLife) {
  const std::string data = wal_data_bytes(7, 9, "body");
  const auto parsed = parse_copy_data(data);
  ASSERT_TRUE(parsed);
  const WalData& wal = std::get<WalData>(*parsed);
  EXPECT_EQ(wal.start.value, 7U);
  EXPECT_EQ(wal.server_end.value, 9U);
  EXPECT_EQ(wal.body, "body");
  const auto quiet = parse_copy_data(keepalive_bytes(11, false));
  ASSERT_TRUE(quiet);
  EXPECT_EQ(std::get<Keepalive>(*quiet).server_end.value, 11U);
  EXPECT_FALSE(std::get<Keepalive>(*quiet).wants_reply);
  EXPECT_TRUE(std::get<Keepalive>(*parse_copy_data(keepalive_bytes(11, true))).wants_reply);
}

TEST(CopyData, WhatIsNeitherIsCorruptAndSaysWhatToCheck) {
  const std::string keepalive = keepalive_bytes(11, true);
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string("w"), wal_data_bytes(1, 2, "").substr(0, 24),
        keepalive.substr(0, 17), keepalive + "x"}) {
    const auto parsed = parse_copy_data(bytes);
    ASSERT_FALSE(parsed) << bytes.size();
    EXPECT_EQ(parsed.error().code, Errc::corrupt);
    EXPECT_NE(parsed.error().text.find("check"), std::string::npos);
  }
}

TEST(CopyData, AStatusSaysTheFlushedPositionAsFlushedAndAsApplied) {
  const std::string status = status_update({0x0102}, {0x03}, kTime);
  const std::string expected = MessageBytes('r')
                                   .number(std::uint64_t{0x0102})
                                   .number(std::uint64_t{3})
                                   .number(std::uint64_t{3})
                                   .number(kStored)
                                   .number(std::uint8_t{0})
                                   .bytes();
  EXPECT_EQ(status, expected);
}

TEST(Pgoutput, ReadsTheFrameOfATransaction) {
  const auto begin = decoded<pgoutput::Begin>(begin_bytes(5, kStored, 77));
  EXPECT_EQ(begin.commit.value, 5U);
  EXPECT_EQ(begin.committed_at, kTime);
  EXPECT_EQ(begin.xid, 77U);
  const auto commit = decoded<pgoutput::Commit>(commit_bytes(5, 6, kStored));
  EXPECT_EQ(commit.commit.value, 5U);
  EXPECT_EQ(commit.end.value, 6U);
  EXPECT_EQ(commit.committed_at, kTime);
}

TEST(Pgoutput, ReadsHowATableLooks) {
  const std::string bytes = relation_bytes(42, "dovetail", "outbox", {"id", "payload"});
  const auto relation = decoded<pgoutput::Relation>(bytes);
  EXPECT_EQ(relation.id, 42U);
  EXPECT_EQ(relation.schema, "dovetail");
  EXPECT_EQ(relation.name, "outbox");
  ASSERT_EQ(relation.columns.size(), 2U);
  EXPECT_EQ(relation.columns[0].name, "id");
  EXPECT_EQ(relation.columns[1].name, "payload");
  EXPECT_EQ(relation.columns[1].type, 25U);
}

TEST(Pgoutput, ReadsTheValuesOfARowWithoutCopyingThem) {
  const std::string bytes = insert_bytes(42, {{Value::Form::null},
                                              {Value::Form::unchanged},
                                              {Value::Form::text, "a\0b"sv},
                                              {Value::Form::binary, ""}});
  std::vector<Value> values(7);
  EXPECT_EQ(decoded<pgoutput::Insert>(bytes, values).relation, 42U);
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values[0].form, Value::Form::null);
  EXPECT_EQ(values[1].form, Value::Form::unchanged);
  EXPECT_EQ(values[2].form, Value::Form::text);
  EXPECT_EQ(values[2].bytes, "a\0b"sv);
  EXPECT_GE(values[2].bytes.data(), bytes.data());
  EXPECT_LT(values[2].bytes.data(), bytes.data() + bytes.size());
  EXPECT_EQ(values[3].form, Value::Form::binary);
  EXPECT_EQ(values[3].bytes, "");
}

TEST(Pgoutput, ReadsMessages) {
  const std::string bytes = message_bytes(true, 99, "dovetail", "a\0b"sv);
  const auto message = decoded<pgoutput::Message>(bytes);
  EXPECT_TRUE(message.transactional);
  EXPECT_EQ(message.position.value, 99U);
  EXPECT_EQ(message.prefix, "dovetail");
  EXPECT_EQ(message.content, "a\0b"sv);
  EXPECT_FALSE(decoded<pgoutput::Message>(message_bytes(false, 1, "", "")).transactional);
}

TEST(Pgoutput, WhatIsOfNoInterestIsLeftAlone) {
  for (const char kind : {'O', 'Y', 'U', 'D', 'T'})
    EXPECT_EQ(decoded<pgoutput::Other>(std::string(1, kind) + "anything").kind, kind);
}

std::vector<std::string> all_messages() {
  return {begin_bytes(5, kStored, 77), commit_bytes(5, 6, kStored),
          relation_bytes(42, "dovetail", "outbox", {"id", "payload"}),
          insert_bytes(42, {{Value::Form::text, "abc"}, {Value::Form::null}}),
          message_bytes(true, 99, "dovetail", "abc")};
}

TEST(Pgoutput, EveryMessageThatIsCutOrTooLongIsCorrupt) {
  std::vector<Value> values;
  for (const std::string& message : all_messages()) {
    ASSERT_TRUE(decode(message, values));
    for (std::size_t size = 0; size < message.size(); ++size) {
      // In its own memory, so that the sanitizer sees a read beyond its end.
      const std::vector<char> cut(message.begin(), message.begin() + static_cast<long>(size));
      const auto out = decode(std::string_view(cut.data(), cut.size()), values);
      ASSERT_FALSE(out) << message[0] << size;
      EXPECT_EQ(out.error().code, Errc::corrupt);
      EXPECT_TRUE(values.empty());
    }
    EXPECT_FALSE(decode(message + "x", values)) << message[0];
  }
}

TEST(Pgoutput, KindsOfOtherVersionsOfTheProtocolAreCorrupt) {
  std::vector<Value> values;
  for (const std::string_view bytes : {""sv, "\0"sv, "S\0\0\0\1\1"sv, "E"sv, "b123"sv, "Z"sv})
    EXPECT_FALSE(decode(bytes, values)) << bytes;
}

TEST(Pgoutput, AnErrorShowsNothingOfThePayload) {
  std::vector<Value> values;
  const std::string bytes = insert_bytes(1, {{Value::Form::text, "secret"}}) + "secret";
  const auto out = decode(bytes, values);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().text.find("secret"), std::string::npos) << out.error().text;
  EXPECT_NE(out.error().text.find("check"), std::string::npos);
}

RC_GTEST_PROP(Pgoutput, ReadsEveryRowThatAServerCouldWrite,
              (std::uint32_t relation, const std::vector<std::string>& texts)) {
  std::vector<Value> written;
  for (const std::string& text : texts) {
    const auto form = *rc::gen::element(Value::Form::null, Value::Form::unchanged,
                                        Value::Form::text, Value::Form::binary);
    written.push_back({form, form >= Value::Form::text ? std::string_view(text) : ""});
  }
  const std::string bytes = insert_bytes(relation, written);
  std::vector<Value> values;
  const auto out = decode(bytes, values);
  RC_ASSERT(out.has_value());
  RC_ASSERT(std::get<pgoutput::Insert>(*out).relation == relation);
  RC_ASSERT(values.size() == written.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    RC_ASSERT(values[i].form == written[i].form);
    RC_ASSERT(values[i].bytes == written[i].bytes);
  }
}

}  // namespace
}  // namespace dovetail::postgres
