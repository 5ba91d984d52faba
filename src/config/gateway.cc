#include "config/gateway.h"

#include <algorithm>

#include "config/http.h"
#include "config/stores.h"
#include "config/tables.h"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

std::string check_methods(const std::vector<std::string>& methods) {
  for (const std::string& method : methods) {
    if (method == "GET" || method == "HEAD" || method == "OPTIONS")
      return method + " changes nothing and needs no key; remove it";
    if (!is_token(method) || std::any_of(method.begin(), method.end(), is_lower))
      return "methods are written in capital letters, such as \"POST\"";
  }
  return {};
}

std::string take_client_headers(std::vector<std::string>& headers) {
  for (std::string& header : headers) {
    if (!is_token(header)) return "must be names of headers";
    for (char& c : header) c = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return {};
}

void declare_requests(GatewayConfig& gateway, Settings& keys) {
  http::GatewayOptions& options = gateway.options;
  keys.text("name", options.name,
            "The owner of the keys. Gateways in front of one service share it.")
      .check([&options]() -> std::string {
        const bool fits = is_token(options.name) && options.name.size() <= 64;
        return fits ? "" : "a name is made of at most 64 letters, digits, '-' and '_'";
      });
  keys.texts("methods", options.methods, "Methods that have keys. All others pass through.")
      .check([&options] { return check_methods(options.methods); });
  keys.flag("key_required", options.key_required,
            "`false`: a request without a key passes through.");
  keys.flag("quoted_keys_only", options.quoted_only,
            "`true` refuses keys without quotes, which most clients send.");
  keys.one_or_more_texts(
          "client", options.client_headers,
          "Headers that tell clients apart. Clients that send none of them share keys, but a "
          "repeat "
          "with another cookie or API key is refused. With `[]` all clients share keys and "
          "answers.")
      .check([&options] { return take_client_headers(options.client_headers); });
  keys.texts("trusted_proxies", options.trusted_proxies,
             "Addresses and networks, such as `\"10.0.0.0/8\"`, whose `X-Forwarded-*` and "
             "`Forwarded` headers are passed on. The gateway removes these headers from all "
             "others.");
  keys.duration("keep", options.keep, 1s,
                "How long an answer is kept, counted from the first request.");
  keys.choice<bool>("on_unknown", options.retry_unknown, {{"hold", false}, {"retry", true}},
                    "`retry`: a request whose outcome is unknown is sent to the service again.");
  keys.numbers("released", options.released_statuses, 200, 999,
               "Statuses that mean that the service did nothing. Such answers are not kept.");
}

void declare_limits(GatewayConfig& gateway, Settings& keys) {
  http::GatewayOptions& options = gateway.options;
  http::EndpointOptions& endpoint = options.endpoint;
  http::ForwardOptions& service = options.service;
  keys.duration("request_timeout", service.timeout, 1ms,
                "How long the service may take for a whole request.");
  keys.renamed("timeout", "request_timeout");
  keys.duration("connect_timeout", service.connect_timeout, 1ms,
                "How long a connection to the service may take.");
  keys.duration("place_timeout", options.place_patience, 0ms,
                "How long a request waits for a place at the service.");
  keys.renamed("wait_max", "place_timeout");
  keys.duration("store_timeout", options.store_patience, 100ms,
                "How long a request, and the answer of the service, wait for a store that is away, "
                "hangs or is too slow.");
  keys.duration("head_timeout", endpoint.head_timeout, 100ms,
                "How long the head of a request may take to arrive.");
  keys.duration("receive_timeout", endpoint.receive_timeout, 1s,
                "How long a body may take to arrive, and a client to take an answer, plus one "
                "second for each 16 KiB that moved. Also how long an idle connection stays open.");
  keys.duration("drain_timeout", gateway.drain_timeout, 0ms,
                "How long current requests may take to finish after SIGTERM.");
  keys.duration("lease", options.lease, 1s, "How long a request belongs to a gateway that died.")
      .otherwise(
          "`request_timeout`, `connect_timeout`, `place_timeout`, `store_timeout` and 30 s "
          "together");
  keys.size("request_max", endpoint.body_bytes_max, 1, "The largest body of a request.");
  keys.size("response_max", service.response_bytes_max, 1, "The largest body of an answer.");
  keys.number("requests_max", options.requests_max, 1, 4096,
              "The most requests at the service at once.");
  keys.number("waiting_max", endpoint.waiting_max, 1, 100'000,
              "The most requests in the gateway at once.");
  keys.size("waiting_bytes", endpoint.waiting_bytes_max, 1 << 10,
            "The most bytes of bodies that are being received.");
  keys.number("connections_per_client", endpoint.connections_per_client_max, 1, 100'000,
              "The most connections of one address. Trusted proxies have no limit.")
      .otherwise("three quarters of the sum of `waiting_max` and 64");
  keys.number("connections", options.connections, 1, 256, "Connections to the store.");
}

void declare_files(GatewayConfig& gateway, const std::filesystem::path& folder, Settings& keys) {
  http::EndpointOptions& endpoint = gateway.options.endpoint;
  http::ForwardOptions& service = gateway.options.service;
  keys.file("cert_file", endpoint.cert_file, folder, "HTTPS for clients: the certificate.");
  keys.file("key_file", endpoint.key_file, folder, "HTTPS for clients: the key of `cert_file`.");
  keys.file("service_ca_file", service.ca_file, folder,
            "TLS to the service: the authority that must have issued its certificate.")
      .otherwise("what the system trusts");
  keys.file("service_cert_file", service.cert_file, folder,
            "TLS to the service: the certificate of the gateway.");
  keys.file("service_key_file", service.key_file, folder,
            "TLS to the service: the key of `service_cert_file`.");
}

}  // namespace

void declare_gateway(GatewayConfig& gateway, const std::filesystem::path& folder, Settings& keys) {
  http::EndpointOptions& endpoint = gateway.options.endpoint;
  keys.parsed(
          "listen", "address and port",
          [&endpoint](const std::string& listen) { return take_listen(listen, endpoint); },
          "`ADDRESS:PORT`. Port 0 takes any free port, and a log line names it.")
      .required();
  keys.flag("allow_remote", endpoint.allow_remote,
            "Without it the gateway refuses an address that is not loopback.");
  keys.text("service", gateway.options.service.url,
            "The url of the service. Its path is put before the path of each request.")
      .required()
      .check([&gateway]() -> std::string {
        const std::string& url = gateway.options.service.url;
        const bool fits = url.starts_with("http://") || url.starts_with("https://");
        return fits ? "" : "must be a url such as \"http://127.0.0.1:8000\"";
      });
  keys.text("store", gateway.store, "The SQLite or PostgreSQL store that keeps the answers.")
      .required();
  declare_requests(gateway, keys);
  declare_limits(gateway, keys);
  declare_files(gateway, folder, keys);
}

void read_gateway(Section& section, Config& config) {
  GatewayConfig gateway;
  Settings keys;
  declare_gateway(gateway, config.file.parent_path(), keys);
  section.read(keys);
  check_pair(section, "cert_file", "key_file");
  check_pair(section, "service_cert_file", "service_key_file");
  check_store_name(section, "store", gateway.store, config);
  if (const StoreConfig* store = config.find_store(gateway.store); store && store->is_broker())
    section.wrong("store", "answers are kept in a database, and " + in_quotes(gateway.store) +
                               " is a broker; name a SQLite or a PostgreSQL store");
  http::EndpointOptions& endpoint = gateway.options.endpoint;
  endpoint.remote_hint = "other machines could reach the service through \"" + endpoint.address +
                         "\"; set allow_remote = true if that is intended, or listen at 127.0.0.1";
  gateway.options.service.came_by_https = !endpoint.cert_file.empty();
  config.gateway = std::move(gateway);
}

}  // namespace dovetail::config
