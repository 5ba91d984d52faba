#include "server/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace dovetail::http {
namespace {

const sockaddr* address_of(const std::string& text) {
  sockaddr_in6 six{};
  sockaddr_in four{};
  static sockaddr_storage storage;
  if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    std::memcpy(&storage, &four, sizeof four);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &six.sin6_addr), 1) << text;
    six.sin6_family = AF_INET6;
    std::memcpy(&storage, &six, sizeof six);
  }
  return reinterpret_cast<const sockaddr*>(&storage);
}

std::string_view kind_of(const std::string& text) {
  const sockaddr* address = address_of(text);
  if (text.find(':') == std::string::npos) {
    EXPECT_EQ(address_text(address), text);
  }
  return why_not_public(address);
}

TEST(Address, WhatIsNotOfThePublicInternetIsNamed) {
  const std::pair<const char*, std::string_view> cases[] = {
      {"127.0.0.1", "loopback"},
      {"127.255.255.254", "loopback"},
      {"0.0.0.0", "unspecified"},
      {"10.0.0.1", "private"},
      {"10.255.255.255", "private"},
      {"172.16.0.1", "private"},
      {"172.31.255.255", "private"},
      {"192.168.1.1", "private"},
      {"100.64.0.1", "shared by a carrier"},
      {"169.254.169.254", "link-local"},
      {"192.0.2.1", "for documentation"},
      {"198.19.0.1", "for benchmarks"},
      {"224.0.0.1", "multicast"},
      {"255.255.255.255", "reserved"},
      {"::", "unspecified"},
      {"::1", "loopback"},
      {"::2", "reserved"},
      {"::127.0.0.1", "reserved"},
      {"::ffff:127.0.0.1", "loopback"},
      {"::ffff:10.1.2.3", "private"},
      {"::ffff:169.254.169.254", "link-local"},
      {"64:ff9b::10.0.0.1", "private"},
      {"2002:7f00:1::", "loopback"},
      {"2002:a00:1::1", "private"},
      {"2001:0:1::", "reserved"},
      {"2001:db8::1", "for documentation"},
      {"fe80::1", "link-local"},
      {"febf::1", "link-local"},
      {"fec0::1", "site-local"},
      {"fc00::1", "unique local"},
      {"fdff::1", "unique local"},
      {"ff02::1", "multicast"},
      {"4000::1", "reserved"},
      {"3fff::1", "for documentation"},
  };
  for (const auto& [text, kind] : cases) EXPECT_EQ(kind_of(text), kind) << text;
}

TEST(Address, PublicAddressesAreFree) {
  for (const char* text : {"1.1.1.1", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0",
                           "192.167.255.255", "192.169.0.0", "100.63.255.255", "100.128.0.0",
                           "169.253.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1",
                           "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"}) {
    EXPECT_EQ(kind_of(text), "") << text;
  }
}

TEST(Address, ANetworkContainsItsAddresses) {
  struct Row {
    const char* range;
    const char* address;
    bool contains;
  };
  const Row rows[] = {
      {"10.0.0.0/8", "10.255.0.1", true},        {"10.0.0.0/8", "11.0.0.0", false},
      {"192.0.2.7", "192.0.2.7", true},          {"192.0.2.7", "192.0.2.6", false},
      {"192.0.2.0/25", "192.0.2.127", true},     {"192.0.2.0/25", "192.0.2.128", false},
      {"0.0.0.0/0", "203.0.113.9", true},        {"0.0.0.0/0", "2001:db8::1", false},
      {"2001:db8::/32", "2001:db8:ff::1", true}, {"2001:db8::/32", "2001:db9::", false},
      {"::ffff:192.0.2.7", "192.0.2.7", true},   {"::/0", "192.0.2.7", true},
  };
  for (const Row& row : rows) {
    const auto range = AddressRange::parse(row.range);
    ASSERT_TRUE(range) << row.range;
    EXPECT_EQ(range->contains(address_of(row.address)), row.contains)
        << row.range << " " << row.address;
  }
  for (const char* wrong :
       {"", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1", "::/129", "10.0.0/8"})
    EXPECT_FALSE(AddressRange::parse(wrong)) << wrong;
}

TEST(Address, OneClientHasOneAddressOrOneNetwork) {
  EXPECT_NE(client_of(address_of("192.0.2.1")), client_of(address_of("192.0.2.2")));
  const std::string network = client_of(address_of("2001:db8:1:2::1"));
  EXPECT_EQ(network, client_of(address_of("2001:db8:1:2:ffff::9")));
  EXPECT_NE(network, client_of(address_of("2001:db8:1:3::1")));
}

}  // namespace
}  // namespace dovetail::http
