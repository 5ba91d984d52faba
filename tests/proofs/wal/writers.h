// Writers with transactions in every form that the WAL can have: one row and ten thousand, by
// publish(), by INSERT of many rows and by COPY, with savepoints kept and rolled back, prepared,
// aborted, and with table changes in between.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dovetail/result.h"

namespace dovetail::shop {

enum class Form : std::uint8_t {
  published,    // by the library, one to eight events
  savepoints,   // some kept, some rolled back, one nested
  many_values,  // one INSERT
  copied,
  prepared,  // committed later
  prepared_in_vain,
  aborted,
  table_changed,  // a column is added or dropped
};
inline constexpr std::size_t kForms = 8;
std::string_view to_string(Form form);

struct WalWritersOptions {
  std::string conninfo{};
  std::size_t writers = 3;
  std::int64_t keys = 40;
  std::int64_t rows_max = 10'000;  // per transaction; most are small
  std::chrono::microseconds pause = std::chrono::milliseconds(30);  // the longest pause between two
  std::chrono::microseconds hold = std::chrono::milliseconds(20);   // the longest pause inside one
  std::uint64_t seed = 1;
  // While it is false, no transaction begins. Any thread; empty: always true.
  std::function<bool()> may_write{};
};

// Creates dovetail's schema with a current partition, and the accounts whose versions are
// published.
Status open_accounts(const std::string& conninfo, std::int64_t keys);

// Writes one transaction of `rows` rows by COPY.
Status copy_in(const std::string& conninfo, std::int64_t rows, std::int64_t keys);

// Threads that write until stop() or the end of the scope. The test fails if they cannot.
class WalWriters {
 public:
  explicit WalWriters(WalWritersOptions options);
  void stop();

  // How many transactions of this form have ended.
  std::uint64_t count(Form form) const { return counts_.at(static_cast<std::size_t>(form)); }
  std::uint64_t transactions() const;
  // For a claim: the count of each form.
  std::string summary() const;

 private:
  const WalWritersOptions options_;
  std::array<std::atomic<std::uint64_t>, kForms> counts_{};
  std::vector<std::jthread> threads_{};
};

}  // namespace dovetail::shop
