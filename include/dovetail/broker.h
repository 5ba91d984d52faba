// What the options of all brokers have in common.
#pragma once

#include <cstdint>
#include <string>

namespace dovetail {

// Headers in which messages of other publishers carry these fields; empty: none. A broker without
// headers has fields instead.
struct ForeignNames {
  std::string id{};
  std::string type{};
  std::string aggregate_type{};
  std::string aggregate_id{};
};

namespace net {

struct Endpoint {
  std::string host{};  // a name or an address; an IPv6 address without brackets
  std::uint16_t port = 0;

  // "host:port", with brackets around an IPv6 address.
  std::string to_string() const;
};

struct TlsOptions {
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // PEM, the client's certificate with its chain; empty: none
  std::string key_file{};     // PEM, the client's key, without a passphrase
  std::string server_name{};  // expected in the certificate; empty: the host
};

// How to get into a server.
struct Access : TlsOptions {
  bool tls = false;  // the certificate and the name in it are always checked
  std::string user{};
  std::string password{};
};

}  // namespace net
}  // namespace dovetail
