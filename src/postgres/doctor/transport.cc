// Whether others on the way can read a connection, or answer in the server's place.
#include <arpa/inet.h>
#include <libpq-fe.h>

#include "core/handle.h"
#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kUseTls =
    "add sslmode=verify-full and sslrootcert=FILE to the {setting}, and use the host name in the "
    "server's certificate";
constexpr Check kUnverified{
    Severity::warning, "tls", nullptr,
    "the connection of the {setting} to {host} (sslmode={sslmode}) is encrypted but does not "
    "verify "
    "the server: another machine could answer in its place and get passwords and payloads",
    kUseTls};
constexpr Check kUnencrypted{Severity::warning, "tls", nullptr,
                             "the connection of the {setting} to {host} (sslmode={sslmode}) is not "
                             "encrypted: others on the network can read passwords and payloads",
                             kUseTls};

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  if (inet_pton(AF_INET6, address.c_str(), &six) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

bool is_local(const Transport& transport) {
  if (transport.host.starts_with('/') || transport.host.starts_with('@')) return true;
  return is_loopback(transport.address.empty() ? transport.host : transport.address);
}

}  // namespace

Transport transport_of(const Connection& connection) {
  pg_conn* const raw = connection.get();
  Transport transport{text_or_empty(PQhost(raw)),
                      text_or_empty(PQhostaddr(raw)),
                      {},
                      PQsslInUse(raw) == 1 || PQgssEncInUse(raw) == 1};
  const Handle<PQconninfoOption, PQconninfoFree> options(PQconninfo(raw));
  for (const PQconninfoOption* option = options.get();
       option != nullptr && option->keyword != nullptr; ++option)
    if (std::string_view(option->keyword) == "sslmode")
      transport.sslmode = text_or_empty(option->val);
  return transport;
}

void examine_transport(const Transport& transport, std::string_view setting, Findings& findings) {
  if (is_local(transport) || (transport.is_encrypted && transport.sslmode == "verify-full")) return;
  findings.add(transport.is_encrypted ? kUnverified : kUnencrypted,
               Facts()
                   .set("setting", setting)
                   .set("host", transport.host)
                   .set("sslmode", transport.sslmode));
}

}  // namespace dovetail::postgres
