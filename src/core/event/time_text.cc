#include "core/event/time_text.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

namespace dovetail {

namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::year;

constexpr WallTime kFirst = std::chrono::sys_days(year(0) / 1 / 1);
constexpr WallTime kLast = std::chrono::sys_days(year(10'000) / 1 / 1) - microseconds(1);

void put_digits(std::uint64_t number, std::size_t count, char* to) {
  for (std::size_t i = count; i > 0; --i) {
    to[i - 1] = static_cast<char>('0' + number % 10);
    number /= 10;
  }
}

// Reads a time piece by piece; after a mismatch it stays failed.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  int number(std::size_t digits) {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) value = value * 10 + digit();
    return value;
  }
  int digit() {
    if (text_.empty() || text_[0] < '0' || text_[0] > '9') return fits_ = false;
    const int value = text_[0] - '0';
    text_.remove_prefix(1);
    return value;
  }
  bool has_digit() const { return !text_.empty() && text_[0] >= '0' && text_[0] <= '9'; }
  bool take_any(std::string_view wanted) {
    if (text_.empty() || wanted.find(text_[0]) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(std::string_view wanted) { fits_ = take_any(wanted) && fits_; }
  void require(bool condition) { fits_ = condition && fits_; }
  bool ends_well() const { return fits_ && text_.empty(); }

 private:
  std::string_view text_;
  bool fits_ = true;
};

microseconds fraction(Reader& reader) {
  if (!reader.take_any(".")) return microseconds(0);
  reader.require(reader.has_digit());
  std::int64_t value = 0;
  std::int64_t unit = 1'000'000;
  while (reader.has_digit()) {
    unit /= 10;
    value += unit * reader.digit();
  }
  return microseconds(value);
}

minutes offset(Reader& reader) {
  if (reader.take_any("Zz")) return minutes(0);
  const bool behind = reader.take_any("-");
  if (!behind) reader.expect("+");
  const int h = reader.number(2);
  reader.expect(":");
  const int m = reader.number(2);
  reader.require(h < 24 && m < 60);
  const minutes ahead = hours(h) + minutes(m);
  return behind ? -ahead : ahead;
}

}  // namespace

void write_time(WallTime time, char* to) {
  time = std::clamp(time, kFirst, kLast);
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const auto since = static_cast<std::uint64_t>(microseconds(time - day).count());
  const std::uint64_t second = since / 1'000'000;
  std::memcpy(to, "0000-00-00T00:00:00.000000Z", kTimeTextBytes);
  put_digits(static_cast<std::uint64_t>(static_cast<int>(date.year())), 4, to);
  put_digits(static_cast<unsigned>(date.month()), 2, to + 5);
  put_digits(static_cast<unsigned>(date.day()), 2, to + 8);
  put_digits(second / 3600, 2, to + 11);
  put_digits(second / 60 % 60, 2, to + 14);
  put_digits(second % 60, 2, to + 17);
  put_digits(since % 1'000'000, 6, to + 20);
}

std::optional<WallTime> parse_time(std::string_view text) {
  Reader reader(text);
  const int y = reader.number(4);
  reader.expect("-");
  const int month = reader.number(2);
  reader.expect("-");
  const int day = reader.number(2);
  reader.expect("Tt ");
  const int h = reader.number(2);
  reader.expect(":");
  const int m = reader.number(2);
  reader.expect(":");
  const int s = reader.number(2);
  const microseconds part = fraction(reader);
  const minutes ahead = offset(reader);
  const std::chrono::year_month_day date(year(y), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  // Second 60 is a leap second.
  if (!reader.ends_well() || !date.ok() || h > 23 || m > 59 || s > 60) return std::nullopt;
  return WallTime(std::chrono::sys_days(date) + hours(h) + minutes(m) + seconds(s) + part - ahead);
}

}  // namespace dovetail
