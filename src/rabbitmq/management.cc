#include "rabbitmq/management.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "host/stream.h"

namespace dovetail::rabbitmq {

namespace {

constexpr std::size_t kAnswerBytesMax = 64 << 20;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

struct Url {
  net::Endpoint endpoint;
  bool tls = false;
};

Result<Url> parse_url(std::string_view text) {
  Url url;
  const auto wrong = [&] {
    return fail(Errc::rejected, "management_url \"" + std::string(text) +
                                    "\" must be http://HOST:PORT or https://HOST:PORT; check it");
  };
  std::string_view rest = text;
  if (rest.starts_with("https://"))
    url.tls = true;
  else if (!rest.starts_with("http://"))
    return wrong();
  rest.remove_prefix(url.tls ? 8 : 7);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || rest.find('/') != std::string_view::npos) return wrong();
  url.endpoint.host = rest.substr(0, colon);
  if (url.endpoint.host.starts_with('[') && url.endpoint.host.ends_with(']'))
    url.endpoint.host = url.endpoint.host.substr(1, url.endpoint.host.size() - 2);
  const std::string_view port = rest.substr(colon + 1);
  const auto end = std::from_chars(port.data(), port.data() + port.size(), url.endpoint.port);
  if (end.ec != std::errc{} || end.ptr != port.data() + port.size() || url.endpoint.host.empty())
    return wrong();
  return url;
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
        c == '_' || c == '.') {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

Result<HttpAnswer> parse_answer(std::string_view bytes) {
  const std::size_t head = bytes.find("\r\n\r\n");
  const std::string_view code = bytes.substr(std::min<std::size_t>(9, bytes.size()), 3);
  HttpAnswer answer;
  const char* const end = code.data() + code.size();
  const auto [read, error] = std::from_chars(code.data(), end, answer.status);
  if (!bytes.starts_with("HTTP/1.") || head == std::string_view::npos || error != std::errc{} ||
      read != end || answer.status < 100)
    return fail(Errc::unavailable,
                "the server at management_url is not the management API; check management_url");
  answer.body = bytes.substr(head + 4);
  return answer;
}

Result<HttpAnswer> request(const Options& options, std::string_view method, std::string_view path,
                           std::string_view body) {
  const Result<Url> url = parse_url(options.management_url);
  if (!url) return fail(url.error());
  Result<net::Stream> stream = net::Stream::connect(url->endpoint, options.connect_timeout);
  if (!stream) return fail(stream.error());
  if (url->tls) DOVETAIL_TRY(stream->start_tls(options, options.connect_timeout));
  // In HTTP/1.0 the end of the connection ends the answer.
  std::string text =
      std::string(method) + " /api/" + std::string(path) +
      " HTTP/1.0\r\nHost: " + url->endpoint.to_string() + "\r\nAuthorization: Basic " +
      base64(options.user + ":" + options.password) +
      "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n";
  text += body;
  DOVETAIL_TRY(stream->write_all(text, options.request_timeout));
  std::string answer;
  std::array<char, 16 << 10> piece{};
  const auto end = std::chrono::steady_clock::now() + options.request_timeout;
  while (stream->is_open() && answer.size() < kAnswerBytesMax) {
    const auto left = std::chrono::duration_cast<Duration>(end - std::chrono::steady_clock::now());
    if (left <= Duration{0})
      return fail(Errc::unavailable,
                  "the management API did not answer in time; check management_url");
    const Result<std::size_t> got = stream->read_within(piece, left);
    if (!got) break;  // the end; checked below
    answer.append(piece.data(), *got);
  }
  return parse_answer(answer);
}

Result<Json> look_up(const Options& options, std::string_view path) {
  Result<HttpAnswer> answer = request(options, "GET", path);
  if (!answer) return fail(answer.error());
  if (answer->status == 404) return Json();
  if (answer->status != 200)
    return fail(
        Errc::unavailable,
        "the management API answered with status " + std::to_string(answer->status) +
            "; check the user's password and that the user has the tag monitoring or management");
  Json json = Json::keep(std::move(answer->body));
  if (json.is_there()) return json;
  return fail(Errc::unavailable,
              "what came is not JSON; check that management_url is RabbitMQ's management API");
}

}  // namespace dovetail::rabbitmq
