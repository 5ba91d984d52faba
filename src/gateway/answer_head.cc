#include "gateway/answer_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "core/ascii.h"
#include "server/header_field.h"

namespace dovetail::http {

namespace {

constexpr std::size_t kBytesMax = 64 << 10;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

// Reads the whole text. Leaves 0 if it is not a number.
template <class Number>
bool parse(std::string_view text, Number& out) {
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && read == end;
}

// Of "HTTP/1.1 200 OK"; 0: it has none.
int status_in(std::string_view line) {
  const std::string_view rest = trimmed(line.substr(std::min(line.find(' '), line.size())));
  int status = 0;
  return parse(rest.substr(0, 3), status) && status >= 100 ? status : 0;
}

}  // namespace

bool is_of_connection(std::string_view lower_name, const std::vector<std::string>& connection) {
  constexpr std::array<std::string_view, 12> kNames{"connection",
                                                    "keep-alive",
                                                    "proxy-connection",
                                                    "proxy-authenticate",
                                                    "proxy-authorization",
                                                    "te",
                                                    "trailer",
                                                    "transfer-encoding",
                                                    "upgrade",
                                                    "expect",
                                                    "http2-settings",
                                                    "content-length"};
  return std::find(kNames.begin(), kNames.end(), lower_name) != kNames.end() ||
         std::find(connection.begin(), connection.end(), lower_name) != connection.end();
}

void add_names(std::string_view value, std::vector<std::string>& names) {
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    names.push_back(to_lower(trimmed(value.substr(0, comma))));
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
}

bool AnswerHead::take(std::string_view line) {
  if (is_whole_) return true;
  if (line.starts_with("HTTP/")) {
    *this = AnswerHead{};
    status_ = status_in(line);
    return true;
  }
  if (trimmed(line).empty()) {
    is_whole_ = status_ >= 200;  // the final head follows an interim one
    return true;
  }
  bytes_ += line.size();
  if (bytes_ > kBytesMax) return false;
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  const std::string name(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (to_lower(name) == "connection") add_names(value, connection_);
  std::uint64_t length = 0;
  if (to_lower(name) == "content-length" && parse(value, length)) length_ = length;
  headers_.push_back({name, std::string(value)});
  return true;
}

std::vector<Header> AnswerHead::headers() const {
  std::vector<Header> headers;
  std::copy_if(
      headers_.begin(), headers_.end(), std::back_inserter(headers),
      [this](const Header& one) { return !is_of_connection(to_lower(one.name), connection_); });
  return headers;
}

}  // namespace dovetail::http
