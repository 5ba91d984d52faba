#include "config/gateway.h"

#include <algorithm>
#include <charconv>

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kListenForm =
    "must be ADDRESS:PORT, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

void read_listen(Section& section, GatewayConfig& gateway) {
  std::string listen;
  section.require("listen");
  section.text("listen", listen);
  if (listen.empty()) return;
  const std::size_t colon = listen.rfind(':');
  std::string address = listen.substr(0, colon);
  const bool in_brackets = address.starts_with('[') && address.ends_with(']');
  if (in_brackets) address = address.substr(1, address.size() - 2);
  const char* const end = listen.data() + listen.size();
  const auto [read, code] = colon == std::string::npos
                                ? std::from_chars_result{end, std::errc::invalid_argument}
                                : std::from_chars(listen.data() + colon + 1, end, gateway.port);
  if (code != std::errc{} || read != end || address.empty() ||
      (!in_brackets && address.find(':') != std::string::npos))
    return section.wrong("listen", kListenForm);
  gateway.address = address;
}

void read_limits(Section& section, GatewayConfig& gateway) {
  section.duration("connect_timeout", gateway.connect_timeout, 1ms);
  section.duration("timeout", gateway.timeout, 1ms);
  section.duration("wait_max", gateway.wait_max, 0ms);
  section.duration("store_timeout", gateway.store_timeout, 100ms);
  section.duration("head_timeout", gateway.head_timeout, 100ms);
  section.duration("receive_timeout", gateway.receive_timeout, 1s);
  section.duration("drain_timeout", gateway.drain_timeout, 0ms);
  section.duration("lease", gateway.lease, 1s);
  section.size("request_max", gateway.request_bytes_max, 1);
  section.size("response_max", gateway.response_bytes_max, 1);
  section.number("requests_max", gateway.requests_max, 1, 4096);
  section.number("waiting_max", gateway.waiting_max, 1, 100'000);
  section.size("waiting_bytes", gateway.waiting_bytes_max, 1 << 10);
  section.number("connections_per_client", gateway.connections_per_client, 1, 100'000);
  section.texts("trusted_proxies", gateway.trusted_proxies);
  section.number("connections", gateway.connections, 1, 256);
}

void read_files(Section& section, GatewayConfig& gateway, const std::filesystem::path& folder) {
  const auto read = [&](std::string_view key, std::filesystem::path& out) {
    std::string file;
    section.text(key, file);
    if (!file.empty()) out = (folder / file).lexically_normal();
  };
  read("cert_file", gateway.cert_file);
  read("key_file", gateway.key_file);
  read("service_ca_file", gateway.service_ca_file);
  read("service_cert_file", gateway.service_cert_file);
  read("service_key_file", gateway.service_key_file);
  if (gateway.cert_file.empty() != gateway.key_file.empty())
    section.wrong(gateway.cert_file.empty() ? "key_file" : "cert_file",
                  "a certificate and its key come together");
  if (gateway.service_cert_file.empty() != gateway.service_key_file.empty())
    section.wrong(gateway.service_cert_file.empty() ? "service_key_file" : "service_cert_file",
                  "a certificate and its key come together");
}

void read_rules(Section& section, GatewayConfig& gateway) {
  std::optional<bool> flag;
  section.flag("key_required", flag);
  gateway.key_required = flag.value_or(gateway.key_required);
  flag.reset();
  section.flag("quoted_keys_only", flag);
  gateway.quoted_only = flag.value_or(gateway.quoted_only);
  if (section.has("methods")) {
    gateway.methods.clear();
    section.texts("methods", gateway.methods);
  }
  for (const std::string& method : gateway.methods) {
    if (method == "GET" || method == "HEAD" || method == "OPTIONS")
      section.wrong("methods", method + " changes nothing and needs no key; remove it");
    else if (!is_token(method) ||
             std::any_of(method.begin(), method.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
      section.wrong("methods", "a method is written in capital letters, such as \"POST\"");
  }
  if (section.has("client")) {
    gateway.client_headers.clear();
    section.texts("client", gateway.client_headers, true);
  }
  for (std::string& header : gateway.client_headers) {
    if (!is_token(header)) section.wrong("client", "must be names of headers");
    for (char& c : header) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  section.duration("keep", gateway.keep, 1s);
  section.choice<bool>("on_unknown", gateway.retry_unknown, {{"hold", false}, {"retry", true}});
  section.numbers("released", gateway.released_statuses, 200, 999);
}

}  // namespace

void read_gateway(Section& section, Config& config) {
  GatewayConfig gateway;
  std::optional<bool> allow_remote;
  section.text("name", gateway.name);
  read_listen(section, gateway);
  section.flag("allow_remote", allow_remote);
  gateway.allow_remote = allow_remote.value_or(false);
  section.require("service");
  section.text("service", gateway.service);
  section.require("store");
  section.text("store", gateway.store);
  read_rules(section, gateway);
  read_limits(section, gateway);
  read_files(section, gateway, config.file.parent_path());
  section.close();
  if (!is_token(gateway.name) || gateway.name.size() > 64)
    section.wrong("name", "a name is made of at most 64 letters, digits, '-' and '_'");
  const StoreConfig* store = config.find_store(gateway.store);
  if (!gateway.store.empty() && (store == nullptr || store->is_broker()))
    section.wrong("store", store == nullptr ? "no store is called " + in_quotes(gateway.store)
                                            : "answers are kept in a database, and " +
                                                  in_quotes(gateway.store) + " is a broker");
  if (!gateway.service.empty() && !gateway.service.starts_with("http://") &&
      !gateway.service.starts_with("https://"))
    section.wrong("service", "must be a url such as \"http://127.0.0.1:8000\"");
  config.gateway = std::move(gateway);
}

}  // namespace dovetail::config
