#include "server/path.h"

#include <gtest/gtest.h>

namespace dovetail::http {
namespace {

TEST(Path, DotSegmentsAreSeenHoweverTheyAreWritten) {
  for (const char* path : {"/../admin",
                           "/a/../../admin",
                           "/..",
                           "/.",
                           "/./x",
                           "/%2e%2e/admin",
                           "/%2E./admin",
                           "/.%2e/admin",
                           "/..%2fadmin",
                           "/..%2Fadmin",
                           "/%2e%2e%2fadmin",
                           "/..\\admin",
                           "/..%5cadmin",
                           "/%252e%252e/admin",
                           "/%25252e%25252e/x",
                           "/..%252fadmin",
                           "/..;/admin",
                           "/..;x=1/admin",
                           "/%2e%2e%3b/admin",
                           "/a%2f..%2fb",
                           "/x/%2e",
                           "/%00",
                           "/a%2500b"})
    EXPECT_FALSE(why_unsafe_path(path).empty()) << path;
  EXPECT_FALSE(why_unsafe_path("/%2525252525252541").empty()) << "nobody needs that";
}

TEST(Path, OthersPass) {
  for (const char* path : {"/", "//", "/a", "/a/b/", "/...", "/..a/b", "/a../b", "/.well-known/x",
                           "/group%2Fproject", "/a%20b", "/100%25", "/a;b=1", "/x%2541"})
    EXPECT_EQ(why_unsafe_path(path), "") << path;
}

TEST(Path, WhatIsNotEncodedWellIsNotDecoded) {
  for (const char* path : {"/%", "/%4", "/%zz", "/a%2", "/%%41"}) {
    EXPECT_FALSE(percent_decoded(path)) << path;
    EXPECT_FALSE(why_unsafe_path(path).empty()) << path;
  }
  EXPECT_EQ(percent_decoded("/a%2Fb%20%7e"), "/a/b ~");
}

}  // namespace
}  // namespace dovetail::http
