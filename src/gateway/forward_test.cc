#include "gateway/forward.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dovetail::http {
namespace {

// Every byte that a field may contain: all but NUL and line ends.
std::string every_byte() {
  std::string bytes;
  for (int byte = 1; byte < 256; ++byte)
    if (byte != '\n' && byte != '\r') bytes += static_cast<char>(byte);
  return bytes;
}

TEST(HeaderLinesTest, EveryByteComesBackAsItWas) {
  const std::vector<Header> headers{
      {"Every", every_byte()}, {"Latin-1", "caf\xe9.pdf"}, {"UTF-8", "caf\xc3\xa9 \xe2\x82\xac"},
      {"Last-Byte", "\xc3"},   {"Caf\xe9", "a: b"},        {"Empty", ""}};
  const std::vector<Header> back = from_lines(to_lines(headers));
  ASSERT_EQ(back.size(), headers.size());
  for (std::size_t i = 0; i < headers.size(); ++i) {
    EXPECT_EQ(back[i].name, headers[i].name);
    EXPECT_EQ(back[i].value, headers[i].value);
  }
}

TEST(HeaderLinesTest, LinesAreUtf8WhateverTheFieldsAre) {
  EXPECT_EQ(to_lines({{"Latin-1", "caf\xe9"}}), "Latin-1: caf\xc3\xa9\n");
  EXPECT_EQ(to_lines({{"UTF-8", "caf\xc3\xa9"}}), "UTF-8: caf\xc3\x83\xc2\xa9\n");
  EXPECT_EQ(to_lines({{"Ends", "\x7f\x80\xbf\xc0\xff"}}),
            "Ends: \x7f\xc2\x80\xc2\xbf\xc3\x80\xc3\xbf\n");
}

}  // namespace
}  // namespace dovetail::http
