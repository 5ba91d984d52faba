// Replies of a Redis server, or invalid ones. A reply in an unexpected form gives nil, empty or
// 0.
#include <hiredis/hiredis.h>

#include <string>

#include "fuzz/fuzz.h"
#include "redis/connection.h"
#include "redis/entry_id.h"
#include "redis/examine.h"

using dovetail::redis::Reply;
using dovetail::redis::Value;

namespace {

std::size_t look_at(const Value& value, int depth) {
  FUZZ_REQUIRE(depth < 64);
  std::size_t bytes = value.text().size();
  (void)value.integer();
  FUZZ_REQUIRE(!value.is_nil() || value.text().empty());
  (void)value.named("name").text();
  FUZZ_REQUIRE(value.at(value.size()).is_nil());
  for (std::size_t i = 0; i < value.size() && i < 1000; ++i)
    bytes += look_at(value.at(i), depth + 1);
  return bytes;
}

// hiredis allocates what a server announces.
bool announces_much(std::string_view input) {
  for (std::size_t at = input.find_first_of("*%~>"); at != std::string_view::npos;
       at = input.find_first_of("*%~>", at + 1))
    if (input.substr(at + 1).find_first_not_of("0123456789") >= 6) return true;
  return false;
}

void check_texts(std::string_view input) {
  dovetail::Facts facts;
  dovetail::redis::parse_info(input, facts);
  FUZZ_REQUIRE(facts.text("redis_version").size() <= input.size());
  FUZZ_REQUIRE(!facts.has("role") || input.find("role:") != std::string_view::npos);
  (void)facts.number("maxmemory");
  const auto id = dovetail::redis::EntryId::parse(input);
  if (!id) return;
  FUZZ_REQUIRE(dovetail::redis::EntryId::parse(id->to_string()) == id);
  FUZZ_REQUIRE(id->position(17) > 17);
}

}  // namespace

void check_input(std::string_view input) {
  check_texts(input);
  if (announces_much(input)) return;
  redisReader* const reader = redisReaderCreate();
  // In two pieces, as a network cuts them.
  const std::size_t half = input.size() / 2;
  for (const std::string_view piece : {input.substr(0, half), input.substr(half)}) {
    redisReaderFeed(reader, piece.data(), piece.size());
    while (true) {
      void* found = nullptr;
      if (redisReaderGetReply(reader, &found) != REDIS_OK || found == nullptr) break;
      const Reply reply(static_cast<redisReply*>(found));
      FUZZ_REQUIRE(look_at(reply.value(), 0) <= input.size());
    }
  }
  redisReaderFree(reader);
}

std::vector<std::string_view> seed_inputs() {
  using namespace std::string_view_literals;
  static const std::string deep = [] {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "*1\r\n";
    return text;
  }();
  return {deep,
          "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory:-1\r\n\r\nno colon\r\n",
          "1700000000000-18446744073709551615",
          "+OK\r\n",
          "-ERR no\r\n",
          ":17\r\n",
          "$-1\r\n*-1\r\n",
          "$5\r\nhello\r\n",
          "*1\r\n*2\r\n$6\r\norders\r\n*1\r\n*2\r\n$3\r\n1-0\r\n"
          "*4\r\n$4\r\nname\r\n$1\r\nx\r\n$1\r\na\r\n$0\r\n\r\n",
          "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
          "$3\r\n\0\1\xff\r\n"sv,
          "*2\r\n$4\r\nname\r\n:12\r\n"};
}
