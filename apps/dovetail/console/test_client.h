// An HTTP client for tests of the console: one request on a connection of its own.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace dovetail::console {

struct Heard {
  int status = 0;  // 0: no answer
  std::string head;
  std::string body;

  // The first line of the head that begins so; empty: none.
  std::string line(const std::string& begin) const {
    const std::size_t at = head.find("\r\n" + begin);
    return at == std::string::npos ? "" : head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
  }
};

inline Heard say(std::uint16_t port, const std::string& request,
                 std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Heard heard;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    std::string all;
    char bytes[4096];
    pollfd waiting{fd, POLLIN, 0};
    while (poll(&waiting, 1, static_cast<int>(patience.count())) > 0) {
      const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      all.append(bytes, static_cast<std::size_t>(got));
    }
    const std::size_t end = all.find("\r\n\r\n");
    if (all.starts_with("HTTP/1.1 ") && end != std::string::npos) {
      heard.status = std::stoi(all.substr(9, 3));
      heard.head = all.substr(0, end + 2);
      heard.body = all.substr(end + 4);
    }
  }
  close(fd);
  return heard;
}

// `headers`: whole lines, each with its end.
inline std::string request_text(const std::string& method, const std::string& path,
                                const std::string& headers = "", const std::string& body = "",
                                const std::string& host = "127.0.0.1") {
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers +
                     "Connection: close\r\n";
  if (!body.empty() || method != "GET")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace dovetail::console
