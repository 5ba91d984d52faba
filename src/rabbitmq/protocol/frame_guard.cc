#include "rabbitmq/protocol/frame_guard.h"

#include <amqp.h>
#include <amqp_framing.h>

#include <algorithm>
#include <array>
#include <optional>

namespace dovetail::rabbitmq {

namespace {

constexpr std::size_t kHeaderBytes = 7;  // type, channel, size
constexpr std::size_t kHeldBytesMax = std::size_t{16} << 20;
constexpr std::size_t kPropertiesBefore = 12;  // class, weight, size of the body

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

void put32(std::string& out, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<char>(value >> (24 - 8 * i));
}

// The size of a value without nested values. Empty: unknown kind.
std::optional<std::size_t> flat_bytes(char kind) {
  switch (kind) {
    case 'V':
      return 0;
    case 't':
    case 'b':
    case 'B':
      return 1;
    case 's':
    case 'u':
      return 2;
    case 'I':
    case 'i':
    case 'f':
      return 4;
    case 'D':
      return 5;
    case 'l':
    case 'L':
    case 'd':
    case 'T':
      return 8;
    default:
      return std::nullopt;
  }
}

// Walks over a table value by value, and remembers only the ends of the enclosing tables.
class TableWalk {
 public:
  TableWalk(std::string_view bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  bool is_shallow() {
    if (!enter(false)) return false;
    while (depth_ > 0) {
      const Level& level = levels_[depth_ - 1];
      if (at_ == level.end) {
        --depth_;
        continue;
      }
      if (!level.is_array && !skip_name()) return false;
      if (!take_value()) return false;
    }
    return true;
  }
  std::size_t at() const { return at_; }

 private:
  struct Level {
    std::size_t end;
    bool is_array;
  };

  std::size_t left() const { return (depth_ > 0 ? levels_[depth_ - 1].end : bytes_.size()) - at_; }
  bool skip(std::size_t count) {
    if (count > left()) return false;
    at_ += count;
    return true;
  }
  bool take_size(std::size_t& size) {
    if (left() < 4) return false;
    size = number_at(bytes_, at_, 4);
    at_ += 4;
    return size <= left();
  }
  bool enter(bool is_array) {
    std::size_t size = 0;
    if (depth_ == levels_.size() || at_ > bytes_.size() || !take_size(size)) return false;
    levels_[depth_++] = {at_ + size, is_array};
    return true;
  }
  bool skip_name() { return left() >= 1 && skip(1 + static_cast<unsigned char>(bytes_[at_])); }
  bool take_value() {
    if (left() < 1) return false;
    const char kind = bytes_[at_++];
    if (kind == 'F' || kind == 'A') return enter(kind == 'A');
    if (kind == 'S' || kind == 'x') {
      std::size_t size = 0;
      return take_size(size) && skip(size);
    }
    const std::optional<std::size_t> size = flat_bytes(kind);
    return size && skip(*size);
  }

  std::string_view bytes_;
  std::size_t at_;
  std::array<Level, kNestingMax> levels_{};
  std::size_t depth_ = 0;
};

tl::unexpected<Error> not_amqp(std::string_view what) {
  return fail(Errc::unavailable, "what came is not AMQP: " + std::string(what) +
                                     "; check that the server is RabbitMQ");
}

}  // namespace

std::size_t shallow_table_bytes(std::string_view bytes, std::size_t at) {
  TableWalk walk(bytes, at);
  return walk.is_shallow() ? walk.at() - at : 0;
}

Result<std::string_view> FrameGuard::next(std::string_view& bytes) {
  if (is_given_) frame_.clear();
  is_given_ = false;
  const auto pass = [&bytes](std::size_t count) {
    const std::string_view passed = bytes.substr(0, count);
    bytes.remove_prefix(passed.size());
    return passed;
  };
  if (is_foreign_) return pass(bytes.size());
  if (rest_ > 0) {
    const std::string_view passed = pass(rest_);
    rest_ -= passed.size();
    return passed;
  }
  if (frame_.size() < kHeaderBytes) frame_.append(pass(kHeaderBytes - frame_.size()));
  // The greeting of a server with another version is not a frame.
  is_foreign_ = frame_.starts_with('A');
  if (!is_foreign_ && frame_.size() < kHeaderBytes) return std::string_view();
  if (!is_foreign_) {
    const std::size_t whole = kHeaderBytes + number_at(frame_, 3, 4) + 1;
    if (frame_[0] == AMQP_FRAME_METHOD || frame_[0] == AMQP_FRAME_HEADER) {
      if (whole > kHeldBytesMax) return not_amqp("a frame of " + std::to_string(whole) + " bytes");
      frame_.append(pass(whole - frame_.size()));
      if (frame_.size() < whole) return std::string_view();
      DOVETAIL_TRY(check());
    } else {
      rest_ = whole - kHeaderBytes;
    }
  }
  is_given_ = true;
  return std::string_view(frame_);
}

Status FrameGuard::check() {
  if (frame_[0] == AMQP_FRAME_METHOD) return check_method();
  check_properties();
  return {};
}

// Only one method that servers send has a table.
Status FrameGuard::check_method() const {
  if (frame_.size() < kHeaderBytes + 4 + 1) return not_amqp("a method without a number");
  const std::uint32_t method = number_at(frame_, kHeaderBytes, 4);
  const std::string_view inside = std::string_view(frame_).substr(0, frame_.size() - 1);
  switch (method) {
    case AMQP_CONNECTION_START_METHOD:
      if (shallow_table_bytes(inside, kHeaderBytes + 4 + 2) == 0)
        return not_amqp("the properties of the server are nested too deep");
      return {};
    case AMQP_CONNECTION_START_OK_METHOD:
    case AMQP_EXCHANGE_DECLARE_METHOD:
    case AMQP_EXCHANGE_BIND_METHOD:
    case AMQP_EXCHANGE_UNBIND_METHOD:
    case AMQP_QUEUE_DECLARE_METHOD:
    case AMQP_QUEUE_BIND_METHOD:
    case AMQP_QUEUE_UNBIND_METHOD:
    case AMQP_BASIC_CONSUME_METHOD:
      return not_amqp("a server asks what only clients ask");
    default:
      return {};
  }
}

// A message with unreadable headers passes without them, so that its queue does not stop.
void FrameGuard::check_properties() {
  const std::string_view inside = std::string_view(frame_).substr(0, frame_.size() - 1);
  std::size_t at = kHeaderBytes + kPropertiesBefore;
  if (at + 2 > inside.size()) return;  // rabbitmq-c will refuse it
  const std::uint32_t flags = number_at(inside, at, 2);
  bool more = true;
  while (more) {
    if (at + 2 > inside.size()) return;
    more = (number_at(inside, at, 2) & 1) != 0;
    at += 2;
  }
  for (const std::uint32_t text : {std::uint32_t{AMQP_BASIC_CONTENT_TYPE_FLAG},
                                   std::uint32_t{AMQP_BASIC_CONTENT_ENCODING_FLAG}})
    if ((flags & text) != 0) {
      if (at >= inside.size()) return;
      at += 1 + static_cast<unsigned char>(inside[at]);
    }
  if ((flags & AMQP_BASIC_HEADERS_FLAG) == 0 || at + 4 > inside.size()) return;
  if (shallow_table_bytes(inside, at) != 0) return;
  const std::size_t table =
      std::min<std::size_t>(4 + std::size_t{number_at(inside, at, 4)}, inside.size() - at);
  std::string instead(4, '\0');
  instead += static_cast<char>(kUnreadableHeaders.size());
  instead += kUnreadableHeaders;
  instead += 'V';
  put32(instead, 0, static_cast<std::uint32_t>(instead.size() - 4));
  frame_.replace(at, table, instead);
  put32(frame_, 3, static_cast<std::uint32_t>(frame_.size() - kHeaderBytes - 1));
}

}  // namespace dovetail::rabbitmq
