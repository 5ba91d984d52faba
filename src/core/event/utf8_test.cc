#include "core/event/utf8.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

TEST(StoredText, IsCutBetweenTwoCharacters) {
  EXPECT_EQ(stored_text("caf\xc3\xa9", 4), "caf");
  EXPECT_EQ(stored_text("caf\xc3\xa9", 5), "caf\xc3\xa9");
  const std::string euros = "\xe2\x82\xac\xe2\x82\xac";
  for (std::size_t bytes = 0; bytes <= euros.size(); ++bytes)
    EXPECT_EQ(stored_text(euros, bytes), euros.substr(0, bytes / 3 * 3)) << bytes;
}

TEST(StoredText, LosesOnlyTheBytesThatAreNoText) {
  EXPECT_EQ(stored_text(std::string_view("a\0b", 3), 10), "a?b");
  EXPECT_EQ(stored_text("caf\xc3\xa9 \xff!", 10), "caf\xc3\xa9 ?!");
  EXPECT_EQ(stored_text("\xac caf\xc3\xa9", 10), "? caf\xc3\xa9") << "cut at its beginning";
  EXPECT_EQ(stored_text("caf\xc3", 10), "caf?") << "cut at its end by somebody else";
}

}  // namespace
}  // namespace dovetail
