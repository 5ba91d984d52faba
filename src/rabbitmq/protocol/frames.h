// AMQP 0-9-1 frames as bytes. rabbitmq-c encodes methods and properties, but would also write them
// to the socket, one by one and without a deadline. So the writing is done elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "dovetail/event.h"

struct amqp_bytes_t_;
struct amqp_table_entry_t_;

namespace dovetail::rabbitmq {

inline constexpr std::size_t kShortStringMax = 255;
inline constexpr std::size_t kFrameExtra = 8;  // around the content of a frame

amqp_bytes_t_ as_bytes(std::string_view text);
std::string_view as_view(const amqp_bytes_t_& bytes);

// `decoded`: rabbitmq-c's struct for `method`, with strings that fit.
void append_method(std::string& out, std::uint16_t channel, std::uint32_t method, void* decoded);
void append_heartbeat(std::string& out);

struct Publish {
  std::string_view exchange;
  std::string_view routing_key;
  const Message* message = nullptr;
  std::string_view key_header{};  // empty: the key is not sent
  WallTime time{};
  bool is_mandatory = true;
};

// Appends a persistent message. Reuses its memory. For one thread.
class PublishEncoder {
 public:
  PublishEncoder();
  PublishEncoder(const PublishEncoder&) = delete;
  PublishEncoder& operator=(const PublishEncoder&) = delete;
  ~PublishEncoder();

  // Why the message does not fit into AMQP; then nothing is appended. Empty: appended.
  std::string append(std::string& out, std::uint16_t channel, const Publish& publish,
                     std::size_t frame_bytes_max);

 private:
  std::string why_not(const Publish& publish) const;
  bool append_properties(std::string& out, std::uint16_t channel, const Publish& publish,
                         std::size_t frame_bytes_max);

  std::vector<amqp_table_entry_t_> entries_;
};

}  // namespace dovetail::rabbitmq
