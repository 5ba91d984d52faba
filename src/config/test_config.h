// Config files for tests.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"

namespace dovetail::config {

inline Config parse(const std::string& text) {
  auto config = parse_config(text, "conf/dovetail.toml");
  EXPECT_TRUE(config) << (config ? "" : config.error().text);
  return config ? std::move(*config) : Config{};
}

// What the error of a wrong file must contain.
inline void expect_error(const std::string& text, std::initializer_list<std::string_view> parts) {
  const auto config = parse_config(text, "conf/dovetail.toml");
  ASSERT_FALSE(config) << text;
  EXPECT_EQ(config.error().code, Errc::rejected);
  for (const std::string_view part : parts) {
    EXPECT_NE(config.error().text.find(part), std::string::npos)
        << "expected " << part << " in: " << config.error().text;
  }
}

}  // namespace dovetail::config
