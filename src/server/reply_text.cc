#include "server/reply_text.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "core/ascii.h"
#include "server/header_field.h"
#include "server/request_head.h"

namespace dovetail::http {

namespace {

std::string_view phrase_of(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";  // RFC 9112, 4: may be empty; clients ignore it
  }
}

// The format of RFC 9110, 5.6.7, independent of the process's locale.
std::string date_of(WallTime now) {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text.data();
}

bool is_ours(std::string_view lower_name) {
  return lower_name == "content-length" || lower_name == "transfer-encoding" ||
         lower_name == "connection";
}

class HeadWriter {
 public:
  explicit HeadWriter(unsigned status) {
    out_ = "HTTP/1.1 " + std::to_string(status) + " " + std::string(phrase_of(status)) + "\r\n";
  }
  void add(std::string_view name, std::string_view value) {
    if (!is_token(name) || !is_field_value(value)) return;
    has_date_ |= to_lower(name) == "date";
    out_.append(name).append(": ").append(value).append("\r\n");
  }
  bool has_date() const { return has_date_; }
  std::string finish() { return std::move(out_) + "\r\n"; }

 private:
  std::string out_;
  bool has_date_ = false;
};

}  // namespace

std::string reply_bytes(const Reply& reply, const ReplyForm& form) {
  const std::string text = reply.text.empty() ? "" : reply.text + "\n";
  const std::string_view body = text.empty() ? std::string_view(reply.body) : text;
  const bool has_none = reply.status < 200 || reply.status == 204 || reply.status == 304;
  HeadWriter head(reply.status);
  if (!reply.text.empty()) head.add("Content-Type", "text/plain; charset=utf-8");
  if (reply.retry_after_s > 0) head.add("Retry-After", std::to_string(reply.retry_after_s));
  if (!reply.header.empty()) head.add(reply.header, reply.header_value);
  for (const Header& one : reply.headers)
    if (!is_ours(to_lower(one.name))) head.add(one.name, one.value);
  if (!head.has_date()) head.add("Date", date_of(form.now));
  const std::uint64_t length = reply.head_bytes.value_or(body.size());
  if (!has_none && length != kUnknownLength) head.add("Content-Length", std::to_string(length));
  if (form.closes) head.add("Connection", "close");
  std::string bytes = head.finish();
  if (!has_none && !form.is_head) bytes.append(body);
  return bytes;
}

}  // namespace dovetail::http
