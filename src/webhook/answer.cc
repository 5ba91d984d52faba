#include "webhook/answer.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

namespace dovetail::http {

Meaning meaning_of(long status, bool own_path) {
  if (status >= 200 && status < 300) return Meaning::confirmed;
  switch (status) {
    case 400:
    case 413:
    case 422:
      return Meaning::rejected;
    case 401:
    case 407:
      return own_path ? Meaning::failed : Meaning::shut;
    case 408:
    case 425:
    case 429:
    case 502:
    case 503:
    case 504:
      return Meaning::busy;
    default:
      return Meaning::failed;
  }
}

namespace {

std::string_view what_to_check(long status) {
  if (status >= 300 && status < 400)
    return "redirects are never followed; set url to the new address";
  switch (status) {
    case 400:
    case 422:
      return "the receiver rejects the event; check what it expects, then replay";
    case 401:
    case 407:
      return "check the password, token or secret of the store";
    case 403:
      return "check the permissions at the receiver";
    case 404:
    case 405:
      return "check the url";
    case 409:
      return "the receiver reports a conflict; check its log";
    case 410:
      return "the endpoint is gone permanently; set another url";
    case 413:
    case 414:
    case 431:
      return "the event is too large for the receiver; check its limits";
    case 415:
      return "check the event's content type";
    case 408:
    case 425:
    case 429:
    case 502:
    case 503:
    case 504:
      return "the receiver is not ready; the relay retries";
    default:
      return "check the receiver's log";
  }
}

// The end of the year 9999. A later date could overflow the clock.
constexpr std::time_t kLastDate = 253'402'300'799;

}  // namespace

std::string reason_of(long status) {
  return "the endpoint answered " + std::to_string(status) + "; " +
         std::string(what_to_check(status));
}

std::optional<Duration> parse_retry_after(std::string_view value, WallTime now) {
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  if (value.empty()) return std::nullopt;
  std::uint32_t seconds = 0;
  const char* const end = value.data() + value.size();
  if (const auto parsed = std::from_chars(value.data(), end, seconds); parsed.ptr == end) {
    const bool fits = parsed.ec == std::errc();
    return std::chrono::seconds(fits ? seconds : std::numeric_limits<std::uint32_t>::max());
  }
  const std::time_t date = curl_getdate(std::string(value).c_str(), nullptr);
  if (date < 0) return std::nullopt;
  const Duration until = WallTime(std::chrono::seconds(std::min(date, kLastDate))) - now;
  return std::max(until, Duration{0});
}

}  // namespace dovetail::http
