// Frames as an attacker could make them.
#include "rabbitmq/protocol/frame_guard.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "core/message/json.h"
#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {
namespace {

using namespace std::string_literals;

std::string sized(const std::string& bytes) {
  std::string out(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(bytes.size() >> (24 - 8 * i));
  return out + bytes;
}

// A table with one header, of arrays inside of arrays.
std::string nested_arrays(std::size_t depth) {
  std::string value = sized("");
  for (std::size_t i = 1; i < depth; ++i) value = sized("A" + value);
  return sized("\x01hA"s + value);
}
std::string nested_tables(std::size_t depth) {
  std::string value = sized("");
  for (std::size_t i = 1; i < depth; ++i) value = sized("\x01tF"s + value);
  return sized("\x01hF"s + value);
}

std::string frame_of(char type, const std::string& payload) {
  return std::string(1, type) + "\0\x01"s + sized(payload) + "\xce";
}

// The properties of a message: a content type, these headers, and a message id.
std::string message_with(const std::string& table) {
  return frame_of(2,
                  "\0\x3c\0\0\0\0\0\0\0\0\0\x05"s + "\xa0\x80"s + "\x04text"s + table + "\x02id"s);
}

// On a thread with a stack as small as that of a handler's thread.
void with_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread{};
  std::function<void()> copy = work;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* data) -> void* {
                  (*static_cast<std::function<void()>*>(data))();
                  return nullptr;
                },
                &copy),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// What rabbitmq-c reads from it, in pieces of `piece` bytes.
std::string decoded(const std::string& bytes, std::size_t piece) {
  FrameGuard guard;
  amqp_connection_state_t state = amqp_new_connection();
  // It waits for a greeting first, which is a method.
  std::string greeting;
  amqp_connection_start_t start{};
  start.version_minor = 9;
  start.mechanisms = as_bytes("PLAIN");
  start.locales = as_bytes("en_US");
  append_method(greeting, 0, AMQP_CONNECTION_START_METHOD, &start);
  const std::string all = greeting + bytes;
  std::string result;
  for (std::size_t at = 0; at < all.size(); at += piece) {
    std::string_view rest = std::string_view(all).substr(at, piece);
    while (!rest.empty()) {
      Result<std::string_view> safe = guard.next(rest);
      if (!safe) {
        result += "refused: " + safe.error().text;
        rest = {};
        at = all.size();
        break;
      }
      while (!safe->empty()) {
        amqp_frame_t frame{};
        const int consumed = amqp_handle_input(state, as_bytes(*safe), &frame);
        if (consumed < 0) {
          result += "error";
          break;
        }
        safe->remove_prefix(static_cast<std::size_t>(consumed));
        if (frame.frame_type != AMQP_FRAME_HEADER) continue;
        const auto& properties =
            *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
        result += std::string(as_view(properties.content_type)) + " " +
                  std::string(as_view(properties.message_id));
        for (int i = 0; i < properties.headers.num_entries; ++i)
          result += " " + std::string(as_view(properties.headers.entries[i].key));
      }
    }
  }
  amqp_destroy_connection(state);
  return result;
}

TEST(FrameGuard, HeadersThatAreNestedTooDeepAreLeftOutAndTheMessageStays) {
  with_small_stack([] {
    for (const std::size_t depth : {std::size_t{33}, std::size_t{1000}, std::size_t{26'000}})
      for (const std::string& table : {nested_arrays(depth), nested_tables(depth)})
        EXPECT_EQ(decoded(message_with(table), 4096), "text id dovetail.unreadable-headers");
  });
}

TEST(FrameGuard, SoIsWhatTheManagementAnswers) {
  with_small_stack([] {
    for (const char* open : {"[", "{\"a\":"}) {
      std::string text;
      for (int i = 0; i < 50'000; ++i) text += open;
      EXPECT_FALSE(Json::parse(text).is_there());
    }
  });
}

TEST(FrameGuard, OthersPassAsTheyAreInPiecesOfAnySize) {
  const std::string flat = sized(
      "\x01"s
      "aS\0\0\0\x01x\x01"s
      "bt\x01\x01"s
      "cV\x01"s
      "dD\x02\0\0\0\7"s);
  for (const std::size_t piece : {1U, 2U, 7U, 8U, 100U, 100'000U}) {
    EXPECT_EQ(decoded(message_with(flat), piece), "text id a b c d");
    EXPECT_EQ(decoded(message_with(nested_arrays(20)), piece), "text id h");
    EXPECT_EQ(decoded(message_with(nested_tables(20)), piece), "text id h");
  }
  EXPECT_EQ(shallow_table_bytes(nested_tables(kNestingMax - 1), 0),
            nested_tables(kNestingMax - 1).size());
  EXPECT_EQ(shallow_table_bytes(nested_tables(kNestingMax), 0), 0U);
}

TEST(FrameGuard, MalformedHeadersAreLeftOut) {
  for (const std::string& table : {sized("\x01"s
                                         "a?"),
                                   sized("\x01"s
                                         "aS\0\0\0\x09x"s),
                                   sized("\x09"s
                                         "a"),
                                   sized("\x01"s
                                         "aF\0\0\1\0"s),
                                   sized("\x01"s
                                         "aI\0"s)})
    EXPECT_EQ(decoded(message_with(table), 4096), "text id dovetail.unreadable-headers");
}

TEST(FrameGuard, WhatNoServerSaysIsRefused) {
  const std::string properties = "\0\x09"s + nested_arrays(26'000) + sized("PLAIN") + sized("en");
  EXPECT_NE(decoded(frame_of(1, "\0\x0a\0\x0a"s + properties), 4096).find("refused"),
            std::string::npos);
  EXPECT_NE(decoded(frame_of(1, "\0\x32\0\x0a"s + "\0\0\1q\0"s + nested_arrays(26'000)), 4096)
                .find("refused"),
            std::string::npos);
  EXPECT_NE(decoded("\x01\0\0\x7f\xff\xff\xff"s, 4096).find("refused"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::rabbitmq
