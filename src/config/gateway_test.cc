#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/config.h"

namespace dovetail::config {
namespace {

const std::string kStore = "[store.orders]\nurl = \"sqlite:orders.db\"\n";
const std::string kLeast =
    kStore +
    "[gateway]\nlisten = \"127.0.0.1:8080\"\nservice = \"http://127.0.0.1:8000\"\n"
    "store = \"orders\"\n";

std::string wrong(const std::string& text) {
  const auto config = parse_config(text, "etc/dovetail.toml");
  return config ? "accepted" : config.error().text;
}
bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(GatewayConfig, NeedsAnAddressAServiceAndAStore) {
  const auto config = parse_config(kLeast, "etc/dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  ASSERT_TRUE(config->gateway);
  EXPECT_EQ(config->gateway->options.endpoint.address, "127.0.0.1");
  EXPECT_EQ(config->gateway->options.endpoint.port, 8080);
  EXPECT_FALSE(config->gateway->options.endpoint.allow_remote);
  EXPECT_TRUE(config->gateway->options.key_required);
  EXPECT_FALSE(config->gateway->options.retry_unknown);
  EXPECT_FALSE(parse_config(kStore, "x.toml")->gateway);
  for (const std::string key : {"listen", "service", "store"}) {
    std::string text = kLeast;
    const std::size_t from = text.find(key + " = ");
    text.erase(from, text.find('\n', from) + 1 - from);
    EXPECT_TRUE(contains(wrong(text), "gateway." + key) || contains(wrong(text), key))
        << wrong(text);
    EXPECT_NE(wrong(text), "accepted") << key;
  }
}

TEST(GatewayConfig, EverythingCanBeChosen) {
  const auto config = parse_config(
      kStore +
          "[gateway]\nname = \"shop\"\nlisten = \"[::1]:0\"\nallow_remote = true\n"
          "service = \"https://shop.example\"\nstore = \"orders\"\nmethods = [\"POST\", \"PUT\"]\n"
          "key_required = false\nquoted_keys_only = true\nclient = [\"X-Client\", "
          "\"Authorization\"]\n"
          "keep = \"2h\"\non_unknown = \"retry\"\nreleased = [429]\nrequest_timeout = \"3s\"\n"
          "lease = \"90s\"\nrequest_max = \"2MiB\"\nresponse_max = \"3MiB\"\nrequests_max = 7\n"
          "head_timeout = \"4s\"\nconnections_per_client = 6\n"
          "trusted_proxies = [\"10.0.0.0/8\"]\n"
          "waiting_max = 8\nwaiting_bytes = \"9MiB\"\nconnections = 2\ncert_file = \"a.pem\"\n"
          "key_file = \"b.pem\"\nservice_ca_file = \"c.pem\"\n",
      "etc/dovetail.toml");
  ASSERT_TRUE(config) << config.error().text;
  const http::GatewayOptions& gateway = config->gateway->options;
  EXPECT_EQ(gateway.endpoint.address, "::1");
  EXPECT_EQ(gateway.client_headers, (std::vector<std::string>{"x-client", "authorization"}));
  EXPECT_EQ(gateway.released_statuses, std::vector<int>{429});
  EXPECT_EQ(gateway.endpoint.head_timeout, std::chrono::seconds(4));
  EXPECT_EQ(gateway.endpoint.connections_per_client_max, 6U);
  EXPECT_EQ(gateway.trusted_proxies, std::vector<std::string>{"10.0.0.0/8"});
  EXPECT_TRUE(gateway.retry_unknown);
  EXPECT_EQ(gateway.endpoint.cert_file, "etc/a.pem");
  EXPECT_EQ(gateway.lease, std::chrono::seconds(90));
}

TEST(GatewayConfig, WhatIsWrongIsToldWithItsPlace) {
  const auto with = [](const std::string& line) { return wrong(kLeast + line + "\n"); };
  EXPECT_TRUE(contains(with("methods = [\"GET\"]"), "needs no key")) << with("methods = [\"GET\"]");
  EXPECT_TRUE(contains(with("methods = [\"post\"]"), "capital letters"));
  EXPECT_TRUE(contains(with("released = [99]"), "whole numbers"));
  EXPECT_TRUE(contains(with("on_unknown = \"again\""), "hold"));
  EXPECT_TRUE(contains(with("client = [\"a b\"]"), "names of headers"));
  EXPECT_TRUE(contains(with("cert_file = \"a\""), "come together"));
  EXPECT_TRUE(contains(with("timeout = \"3s\""), "is now called \"request_timeout\""));
  EXPECT_TRUE(contains(with("keyrequired = true"), "key_required"));
  EXPECT_TRUE(contains(with("keyrequired = true"), "etc/dovetail.toml:7:"))
      << with("keyrequired = true");
  for (const std::string listen :
       {"8080", "127.0.0.1", "::1:80", "127.0.0.1:x", ":80", "127.0.0.1:70000"}) {
    std::string text = kLeast;
    text.replace(text.find("127.0.0.1:8080"), 14, listen);
    EXPECT_TRUE(contains(wrong(text), "must be ADDRESS:PORT")) << listen << ": " << wrong(text);
  }
  std::string text = kLeast;
  text.replace(text.find("store = \"orders\""), 16, "store = \"order\"");
  EXPECT_TRUE(contains(wrong(text), "no store is called \"order\"")) << wrong(text);
}

TEST(HttpConfig, NeedsAnAddressOnly) {
  EXPECT_FALSE(parse_config(kStore, "x.toml")->http);
  const auto config = parse_config(kStore + "[http]\nlisten = \"127.0.0.1:7070\"\n", "x.toml");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->http->endpoint.port, 7070);
  EXPECT_EQ(config->http->role_without_token(), Role::viewer);
  EXPECT_FALSE(config->http->endpoint.allow_remote);
  EXPECT_TRUE(contains(wrong(kStore + "[http]\n"), "listen"));
}

TEST(HttpConfig, OtherMachinesNeedTlsAndTokens) {
  const auto read = [](const std::string& more) {
    return parse_config(kStore + "[http]\nlisten = \"0.0.0.0:7070\"\n" + more, "etc/x.toml");
  };
  const std::string tls = "cert_file = \"c.pem\"\nkey_file = \"k.pem\"\n";
  const std::string tokens = "tokens_file = \"tokens\"\n";
  const auto hint = [&](const std::string& more) { return read(more)->http->endpoint.remote_hint; };
  EXPECT_TRUE(contains(hint(""), "set cert_file, key_file, tokens_file, or listen at 127.0.0.1"));
  EXPECT_TRUE(contains(hint(tls), "set tokens_file, or"));
  EXPECT_TRUE(contains(hint(tokens), "set cert_file, key_file, or"));
  EXPECT_FALSE(read(tls)->http->endpoint.allow_remote);
  EXPECT_FALSE(read(tokens)->http->endpoint.allow_remote);
  const auto whole = read(tls + tokens);
  EXPECT_TRUE(whole->http->endpoint.allow_remote);
  EXPECT_EQ(whole->http->role_without_token(), Role::nobody);
  EXPECT_EQ(whole->http->tokens_file, "etc/tokens");
  const std::string open = tls + tokens + "without_token = \"viewer\"\n";
  EXPECT_FALSE(read(open)->http->endpoint.allow_remote);
  EXPECT_TRUE(contains(hint(open), "remove without_token"));
}

TEST(HttpConfig, HostsAreNamesWithoutPorts) {
  const std::string http = kStore + "[http]\nlisten = \"127.0.0.1:0\"\n";
  const auto config = parse_config(http + "hosts = [\"Dash.Example\", \"::1\"]\n", "x.toml");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->http->hosts, (std::vector<std::string>{"dash.example", "::1"}));
  EXPECT_TRUE(contains(wrong(http + "hosts = [\"http://x\"]\n"), "without a port"));
  EXPECT_TRUE(contains(wrong(http + "cert_file = \"c\"\n"), "come together"));
  EXPECT_TRUE(contains(wrong(http + "without_token = \"root\"\n"), "operator"));
}

}  // namespace
}  // namespace dovetail::config
