// Messages of logical replication in the server's form, for tests.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postgres/connection/byte_order.h"
#include "postgres/stream/pgoutput.h"

namespace dovetail::postgres {

// Appends values; texts get their NUL.
class MessageBytes {
 public:
  explicit MessageBytes(char kind) : bytes_(1, kind) {}

  template <class Integer>
  MessageBytes& number(Integer value) {
    append_big_endian(bytes_, value);
    return *this;
  }
  MessageBytes& text(std::string_view value) {
    bytes_.append(value).push_back('\0');
    return *this;
  }
  MessageBytes& raw(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  MessageBytes& sized(std::string_view value) {
    return number(static_cast<std::uint32_t>(value.size())).raw(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline std::string wal_data_bytes(std::uint64_t start, std::uint64_t end, std::string_view body) {
  return MessageBytes('w').number(start).number(end).number(std::int64_t{0}).raw(body).bytes();
}
inline std::string keepalive_bytes(std::uint64_t end, bool wants_reply) {
  return MessageBytes('k')
      .number(end)
      .number(std::int64_t{0})
      .number(static_cast<std::uint8_t>(wants_reply))
      .bytes();
}
inline std::string begin_bytes(std::uint64_t commit, std::int64_t stored_time, std::uint32_t xid) {
  return MessageBytes('B').number(commit).number(stored_time).number(xid).bytes();
}
inline std::string commit_bytes(std::uint64_t commit, std::uint64_t end, std::int64_t stored_time) {
  return MessageBytes('C')
      .number(std::uint8_t{0})
      .number(commit)
      .number(end)
      .number(stored_time)
      .bytes();
}
inline std::string relation_bytes(std::uint32_t id, std::string_view schema, std::string_view name,
                                  const std::vector<std::string>& columns) {
  MessageBytes out('R');
  out.number(id).text(schema).text(name).raw("d");
  out.number(static_cast<std::uint16_t>(columns.size()));
  for (const std::string& column : columns)
    out.number(std::uint8_t{0}).text(column).number(std::uint32_t{25}).number(std::int32_t{-1});
  return out.bytes();
}
inline std::string insert_bytes(std::uint32_t relation,
                                const std::vector<pgoutput::Value>& values) {
  MessageBytes out('I');
  out.number(relation).raw("N").number(static_cast<std::uint16_t>(values.size()));
  for (const pgoutput::Value& value : values) {
    out.raw(std::string_view(&"nutb"[static_cast<std::size_t>(value.form)], 1));
    if (value.form >= pgoutput::Value::Form::text) out.sized(value.bytes);
  }
  return out.bytes();
}
inline std::string message_bytes(bool transactional, std::uint64_t position,
                                 std::string_view prefix, std::string_view content) {
  return MessageBytes('M')
      .number(static_cast<std::uint8_t>(transactional))
      .number(position)
      .text(prefix)
      .sized(content)
      .bytes();
}

}  // namespace dovetail::postgres
