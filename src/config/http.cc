#include "config/http.h"

#include <algorithm>
#include <charconv>

#include "config/stores.h"
#include "config/tables.h"

namespace dovetail::config {
namespace {

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
}

std::string check_hosts(std::vector<std::string>& hosts) {
  for (std::string& host : hosts) {
    for (char& c : host) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (host.empty() || !std::all_of(host.begin(), host.end(), is_host_character))
      return "must be names or addresses without a port, such as \"dovetail.example\"";
  }
  return {};
}

// What must be set before other machines may reach the listener.
std::string remote_hint(const HttpConfig& http) {
  std::string missing;
  const auto need = [&missing](bool is_missing, std::string_view key) {
    if (is_missing) missing.append(missing.empty() ? "" : ", ").append(key);
  };
  need(http.endpoint.cert_file.empty(), "cert_file, key_file");
  need(http.tokens_file.empty(), "tokens_file");
  if (missing.empty() && http.role_without_token() != Role::nobody)
    return "other machines could reach [http] at \"" + http.endpoint.address +
           "\" without a token; remove without_token, or listen at 127.0.0.1";
  return "other machines could reach [http] at \"" + http.endpoint.address +
         "\", which needs TLS and tokens; set " + missing + ", or listen at 127.0.0.1";
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::nobody:
      return "nobody";
    case Role::viewer:
      return "viewer";
    case Role::operator_:
      return "operator";
    case Role::admin:
      return "admin";
  }
  return "nobody";
}

std::string take_listen(const std::string& listen, http::EndpointOptions& endpoint) {
  const std::size_t colon = listen.rfind(':');
  std::string address = listen.substr(0, colon);
  const bool in_brackets = address.starts_with('[') && address.ends_with(']');
  if (in_brackets) address = address.substr(1, address.size() - 2);
  const char* const end = listen.data() + listen.size();
  const auto [read, code] = colon == std::string::npos
                                ? std::from_chars_result{end, std::errc::invalid_argument}
                                : std::from_chars(listen.data() + colon + 1, end, endpoint.port);
  if (code != std::errc{} || read != end || address.empty() ||
      (!in_brackets && address.find(':') != std::string::npos))
    return "must be ADDRESS:PORT, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
  endpoint.address = std::move(address);
  return {};
}

void declare_http(HttpConfig& http, const std::filesystem::path& folder, Settings& keys) {
  http::EndpointOptions& endpoint = http.endpoint;
  keys.parsed(
          "listen", "address and port",
          [&endpoint](const std::string& listen) { return take_listen(listen, endpoint); },
          "`ADDRESS:PORT`. Port 0 takes any free port, and a log line names it. An address that is "
          "not loopback needs `cert_file`, `key_file` and `tokens_file`.")
      .required();
  keys.file("tokens_file", http.tokens_file, folder,
            "Who may do what: each line is a role (`viewer`, `operator` or `admin`), a name and a "
            "token of 24 characters or more. Only its owner and its group may read the file. A "
            "change takes effect within seconds.");
  keys.choice<std::optional<Role>>(
          "without_token", http.without_token,
          {{"nobody", Role::nobody},
           {"viewer", Role::viewer},
           {"operator", Role::operator_},
           {"admin", Role::admin}},
          "The role of a client without a token. Every user of this machine can be such a client.")
      .otherwise("`viewer`, and `nobody` with a `tokens_file`");
  keys.texts("hosts", http.hosts,
             "Names under which clients reach the listener, without a port. The address of "
             "`listen` is always one, and so is `localhost` where that is loopback. A request for "
             "another host is refused.")
      .check([&http] { return check_hosts(http.hosts); });
  keys.file("cert_file", endpoint.cert_file, folder, "HTTPS: the certificate.");
  keys.file("key_file", endpoint.key_file, folder, "HTTPS: the key of `cert_file`.");
}

void read_http(Section& section, Config& config) {
  HttpConfig http;
  Settings keys;
  declare_http(http, config.file.parent_path(), keys);
  section.read(keys);
  check_pair(section, "cert_file", "key_file");
  const bool has_both = !http.endpoint.cert_file.empty() && !http.tokens_file.empty();
  http.endpoint.allow_remote = has_both && http.role_without_token() == Role::nobody;
  http.endpoint.remote_hint = remote_hint(http);
  config.http = std::move(http);
}

}  // namespace dovetail::config
