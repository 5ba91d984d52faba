// What tests see of tests/servers/http_server.py: the requests that came.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/event/batch.h"
#include "core/message/message.h"
#include "memory/stored_event.h"
#include "servers/servers.h"

namespace dovetail::http {

struct Recorded {
  std::string method;
  std::string path;  // with the query
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  int status = 0;
  std::string peer;  // of the connection: address and port

  std::string header(const std::string& lower_name) const {
    for (const auto& [name, value] : headers) {
      std::string lower = name;
      for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (lower == lower_name) return value;
    }
    return {};
  }
};

inline std::string base64_decoded(const std::string& text) {
  static const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = alphabet.find(c);
    if (digit == std::string::npos) continue;
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

// Requests to paths that begin with `prefix`, in the order of completion.
inline std::vector<Recorded> requests_to(const servers::Server& server, const std::string& prefix) {
  std::vector<Recorded> found;
  std::ifstream file(server.field("home") + "/record");
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"path\": \"" + prefix) == std::string::npos) continue;  // cheaper than parsing
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;
    Recorded one;
    one.method = json["method"];
    one.path = json["path"];
    one.body = base64_decoded(json["body"]);
    one.status = json["status"];
    one.peer = json["peer"];
    for (const auto& header : json["headers"]) one.headers.emplace_back(header[0], header[1]);
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace dovetail::http
