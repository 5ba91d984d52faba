#include "postgres/stream/buffer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

namespace dovetail::postgres {
namespace {

CopyBytes message(const std::string& text) {
  CopyBytes made;
  made.bytes.reset(static_cast<char*>(std::malloc(text.size())));
  std::memcpy(made.bytes.get(), text.data(), text.size());
  made.size = text.size();
  return made;
}

std::string next(WalBuffer& buffer) {
  const std::optional<std::string_view> front = buffer.front();
  if (!front) return "none";
  std::string text(*front);
  (void)buffer.pop();
  return text;
}

TEST(WalBuffer, HandsOverInOrderWhateverTheSize) {
  WalBuffer buffer(1 << 20);
  const std::string large(100'000, 'l');
  buffer.put(message("first"));
  buffer.put(message(large));
  buffer.put(message("second"));
  EXPECT_EQ(next(buffer), "first");  // a large one is handed over together with earlier ones
  EXPECT_EQ(next(buffer), large);
  EXPECT_EQ(next(buffer), "none");
  buffer.hand_over(true);
  buffer.put(message("third"));
  buffer.hand_over(true);
  EXPECT_EQ(next(buffer), "second");
  EXPECT_EQ(next(buffer), "third");
}

TEST(WalBuffer, AskedAgainTheFrontIsTheSame) {
  WalBuffer buffer(1 << 20);
  buffer.put(message("first"));
  buffer.hand_over(true);
  EXPECT_EQ(buffer.front(), "first");
  EXPECT_EQ(buffer.front(), "first");
}

TEST(WalBuffer, ATrickleTakesNoMoreMemoryThanItsMessages) {
  WalBuffer buffer(1 << 20);
  for (int i = 0; i < 5000; ++i) {
    buffer.put(message("a message of few bytes"));
    buffer.hand_over(true);
  }
  EXPECT_TRUE(buffer.has_room());
}

TEST(WalBuffer, TellsTheReceiverOnceWhenThereIsRoomAgain) {
  WalBuffer buffer(1 << 20);
  while (buffer.has_room()) buffer.put(message(std::string(50'000, 'x')));
  int told = 0;
  while (buffer.front()) told += buffer.pop() ? 1 : 0;
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(buffer.has_room());
}

TEST(WalBuffer, WhatCameBeforeTheEndIsStillThere) {
  WalBuffer buffer(1 << 20);
  buffer.put(message("last"));
  buffer.end(Error{Errc::unavailable, "over"});
  EXPECT_TRUE(buffer.wait(std::chrono::steady_clock::now(), {}));
  EXPECT_EQ(buffer.ended()->text, "over");
  EXPECT_EQ(next(buffer), "last");
}

TEST(WalBuffer, WhatIsNotUrgentIsFoundByAReaderThatLooks) {
  WalBuffer buffer(1 << 20);
  buffer.put(message("later"));
  buffer.hand_over(false);
  EXPECT_TRUE(buffer.wait(std::chrono::steady_clock::now() + std::chrono::seconds(30), {}));
  EXPECT_EQ(next(buffer), "later");
}

TEST(WalBuffer, BetweenTwoThreadsNothingIsLostAndNothingTurnsAround) {
  constexpr int kMessages = 200'000;
  WalBuffer buffer(1 << 20);
  std::jthread receiver([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (i % 50 == 0 && !buffer.has_room()) std::this_thread::yield();
      buffer.put(message(std::to_string(i) + std::string(static_cast<std::size_t>(i % 300), '.')));
      if (i % 7 == 0) buffer.hand_over(true);
    }
    buffer.end(Error{Errc::unavailable, "over"});
  });
  for (int i = 0; i < kMessages; ++i) {
    while (!buffer.front())
      ASSERT_TRUE(buffer.wait(std::chrono::steady_clock::now() + std::chrono::seconds(30), {}));
    ASSERT_EQ(next(buffer),
              std::to_string(i) + std::string(static_cast<std::size_t>(i % 300), '.'));
  }
  EXPECT_EQ(next(buffer), "none");
}

}  // namespace
}  // namespace dovetail::postgres
