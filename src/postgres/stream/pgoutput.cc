#include "postgres/stream/pgoutput.h"

#include "postgres/connection/byte_order.h"

namespace dovetail::postgres {

namespace {

// Reads a message from its front. After a mismatch it stays failed.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  template <class Integer>
  Integer number() {
    const std::string_view bytes = take(sizeof(Integer));
    return bytes.size() == sizeof(Integer) ? read_big_endian<Integer>(bytes.data()) : Integer{0};
  }
  WalPosition position() { return {number<std::uint64_t>()}; }
  WallTime time() { return wall_time_of(number<std::int64_t>()); }
  char letter() { return static_cast<char>(number<std::uint8_t>()); }

  // Ends with a NUL, which is not part of the text.
  std::string_view text() {
    const std::size_t size = rest_.find('\0');
    if (size == std::string_view::npos) return misfit();
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size + 1);
    return found;
  }
  std::string_view sized_bytes() { return take(number<std::uint32_t>()); }
  std::string_view rest() { return take(rest_.size()); }

  void require(bool condition) {
    if (!condition) misfit();
  }
  bool fits() const { return fits_; }
  bool ends_well() const { return fits_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) return misfit();
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  std::string_view misfit() {
    fits_ = false;
    rest_ = {};
    return {};
  }

  std::string_view rest_;
  bool fits_ = true;
};

tl::unexpected<Error> no_message(std::string_view what, std::string_view bytes) {
  std::string text = "the server sent ";
  text += what;
  text += " of " + std::to_string(bytes.size()) + " bytes";
  if (!bytes.empty()) {
    text += " and kind " + std::to_string(static_cast<unsigned char>(bytes[0]));
  }
  return fail(Errc::corrupt, text +
                                 ", which is not part of the logical replication protocol; check "
                                 "that the server is PostgreSQL and that its slot uses pgoutput");
}

}  // namespace

Result<std::variant<WalData, Keepalive>> parse_copy_data(std::string_view bytes) {
  Cursor cursor(bytes);
  switch (cursor.letter()) {
    case 'w': {
      WalData data;
      data.start = cursor.position();
      data.server_end = cursor.position();
      data.sent_at = cursor.time();
      const bool has_head = cursor.fits();
      data.body = cursor.rest();
      if (has_head) return data;
      break;
    }
    case 'k': {
      Keepalive keepalive;
      keepalive.server_end = cursor.position();
      cursor.time();
      keepalive.wants_reply = cursor.letter() != 0;
      if (cursor.ends_well()) return keepalive;
      break;
    }
    default:
      break;
  }
  return no_message("something", bytes);
}

std::string status_update(WalPosition written, WalPosition flushed, WallTime now,
                          bool wants_reply) {
  std::string out;
  out.reserve(34);
  out += 'r';
  append_big_endian(out, written.value);
  append_big_endian(out, flushed.value);
  append_big_endian(out, flushed.value);  // the applied position
  append_big_endian(out, std::int64_t{now.time_since_epoch().count() - kEpochOffset});
  out += wants_reply ? '\1' : '\0';
  return out;
}

namespace pgoutput {

namespace {

Begin read_begin(Cursor& cursor) {
  Begin begin;
  begin.commit = cursor.position();
  begin.committed_at = cursor.time();
  begin.xid = cursor.number<std::uint32_t>();
  return begin;
}

Commit read_commit(Cursor& cursor) {
  cursor.letter();  // flags; there are none
  Commit commit;
  commit.commit = cursor.position();
  commit.end = cursor.position();
  commit.committed_at = cursor.time();
  return commit;
}

Relation read_relation(Cursor& cursor) {
  Relation relation;
  relation.id = cursor.number<std::uint32_t>();
  relation.schema = cursor.text();
  relation.name = cursor.text();
  cursor.letter();  // the replica identity
  const auto count = cursor.number<std::uint16_t>();
  for (std::uint16_t i = 0; i < count && cursor.fits(); ++i) {
    cursor.letter();  // whether it is part of the key
    const std::string_view name = cursor.text();
    const auto type = cursor.number<std::uint32_t>();
    cursor.number<std::int32_t>();  // the type's modifier
    relation.columns.push_back({name, type});
  }
  return relation;
}

Value read_value(Cursor& cursor) {
  switch (cursor.letter()) {
    case 'n':
      return {Value::Form::null};
    case 'u':
      return {Value::Form::unchanged};
    case 't':
      return {Value::Form::text, cursor.sized_bytes()};
    case 'b':
      return {Value::Form::binary, cursor.sized_bytes()};
    default:
      cursor.require(false);
      return {};
  }
}

Insert read_insert(Cursor& cursor, std::vector<Value>& values) {
  const Insert insert{cursor.number<std::uint32_t>()};
  cursor.require(cursor.letter() == 'N');
  const auto count = cursor.number<std::uint16_t>();
  for (std::uint16_t i = 0; i < count && cursor.fits(); ++i) values.push_back(read_value(cursor));
  return insert;
}

Message read_message(Cursor& cursor) {
  Message message;
  message.transactional = (cursor.number<std::uint8_t>() & 1) != 0;
  message.position = cursor.position();
  message.prefix = cursor.text();
  message.content = cursor.sized_bytes();
  return message;
}

}  // namespace

Result<Decoded> decode(std::string_view bytes, std::vector<Value>& values) {
  values.clear();
  Cursor cursor(bytes);
  Decoded out;
  switch (const char kind = cursor.letter(); kind) {
    case 'B':
      out = read_begin(cursor);
      break;
    case 'C':
      out = read_commit(cursor);
      break;
    case 'R':
      out = read_relation(cursor);
      break;
    case 'I':
      out = read_insert(cursor, values);
      break;
    case 'M':
      out = read_message(cursor);
      break;
    case 'O':
    case 'Y':
    case 'U':
    case 'D':
    case 'T':
      cursor.rest();
      out = Other{kind};
      break;
    default:
      cursor.require(false);
  }
  if (!cursor.ends_well()) {
    values.clear();
    return no_message("a message", bytes);
  }
  return out;
}

}  // namespace pgoutput
}  // namespace dovetail::postgres
