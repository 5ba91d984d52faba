#include "postgres/connection/conninfo.h"

#include <gtest/gtest.h>

namespace dovetail::postgres {
namespace {

TEST(Conninfo, PairsAndUrlsMeanTheSame) {
  const auto pairs = parse_conninfo("host=db port=5433 dbname=shop user=relay");
  const auto url = parse_conninfo("postgres://relay@db:5433/shop");
  ASSERT_TRUE(pairs && url);
  EXPECT_EQ(pairs->keywords, url->keywords);
  EXPECT_EQ(pairs->shown, url->shown);
  EXPECT_NE(url->shown.find("host=db"), std::string::npos) << url->shown;
}

TEST(Conninfo, APasswordIsRefusedAndNeverQuoted) {
  for (const char* text :
       {"host=db password=canary", "host=db password = 'canary'", "postgres://u:canary@db/shop",
        "postgresql://db/shop?password=canary", "postgresql://db/shop?pass%77ord=canary",
        "host=db sslpassword=canary", "host=db password=my canary", "u:canary@db/shop",
        "host=db dbname=postgres://u:canary@db/shop", "postgres://u:canary@db:port:port/shop",
        "host=db passwort=canary", "postgres://u:100%canary@db/shop"}) {
    const auto parsed = parse_conninfo(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::rejected);
    EXPECT_EQ(parsed.error().text.find("canary"), std::string::npos) << parsed.error().text;
  }
  EXPECT_NE(parse_conninfo("password=x").error().text.find("PGPASSFILE"), std::string::npos);
}

TEST(Conninfo, WhatCanNeverWorkIsRefused) {
  for (const char* text : {"host=db port=x", "host=a,b port=1,x", "host=db sslmode=on",
                           "host=db connect_timeout=soon", "host=db target_session_attrs=master"})
    EXPECT_FALSE(parse_conninfo(text)) << text;
  for (const char* text :
       {"host=a,b port=1,2", "host=a,b port=,2", "sslmode=verify-full", "connect_timeout=3",
        "target_session_attrs=read-write", "postgres://a:1,b:2/shop?sslmode=require"})
    EXPECT_TRUE(parse_conninfo(text)) << text;
}

TEST(Conninfo, APasswordIsAddedAsItIs) {
  const auto parsed = parse_conninfo("host=db");
  ASSERT_TRUE(parsed);
  const std::string whole = with_password(*parsed, "it's \\ here");
  EXPECT_EQ(whole, "host='db' password='it\\'s \\\\ here'");
  EXPECT_FALSE(parse_conninfo(whole)) << "libpq reads it as a password";
}

}  // namespace
}  // namespace dovetail::postgres
