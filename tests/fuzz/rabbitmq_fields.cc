// Headers of messages come from other programs. rabbitmq-c decodes those that are not too deep;
// everything that it accepts becomes text.
#include <amqp.h>

#include <string>

#include "fuzz/fuzz.h"
#include "rabbitmq/protocol/field_text.h"
#include "rabbitmq/protocol/frame_guard.h"

void check_input(std::string_view input) {
  const std::size_t table_bytes = dovetail::rabbitmq::shallow_table_bytes(input, 0);
  if (table_bytes == 0) return;
  FUZZ_REQUIRE(table_bytes <= input.size());
  std::string copy(input);
  amqp_pool_t pool;
  init_amqp_pool(&pool, 4096);
  amqp_table_t table{};
  std::size_t offset = 0;
  if (amqp_decode_table(amqp_bytes_t{copy.size(), copy.data()}, &pool, &table, &offset) >= 0) {
    FUZZ_REQUIRE(offset == table_bytes);
    std::string text;
    for (int i = 0; i < table.num_entries; ++i)
      dovetail::rabbitmq::append_text(text, table.entries[i].value);
    // Each byte may become an escape of six; numbers are longer than their bytes.
    FUZZ_REQUIRE(text.size() <= 64 * (input.size() + 1));
  }
  empty_amqp_pool(&pool);
}

std::vector<std::string_view> seed_inputs() {
  using namespace std::string_view_literals;
  return {"\0\0\0\0"sv,
          "\0\0\0\x08\x01"
          "aS\0\0\0\x01x"sv,
          "\0\0\0\x04\x01"
          "at\x01"sv,
          "\0\0\0\x07\x01"
          "aI\xff\xff\xff\xff"sv,
          "\0\0\0\x0b\x01"
          "aT\0\0\0\0\x65\x53\xf1\0"sv,
          "\0\0\0\x0f\x01"
          "aF\0\0\0\x08\x01"
          "bS\0\0\0\x01\""sv,
          "\0\0\0\x0b\x01"
          "aA\0\0\0\x04t\x01V\0"sv,
          "\0\0\0\x08\x01"
          "aD\x02\0\0\0\x07"sv,
          "\0\0\0\x0b\x01"
          "ad\x40\x09\x21\xfb\x54\x44\x2d\x18"sv};
}
