// Writers whose transactions have every form that the server's log can hold: one row and ten
// thousand, by publish(), by INSERT of many and by COPY, with savepoints that are kept and that are
// rolled back, prepared, aborted, and with the table changed between them.
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
  published,    // through the library, one to eight of them
  savepoints,   // some kept, some rolled back, one in another
  many_values,  // one INSERT
  copied,
  prepared,  // and committed later
  prepared_in_vain,
  aborted,
  table_changed,  // a column comes, or goes
};
inline constexpr std::size_t kForms = 8;
std::string_view to_string(Form form);

struct WalWritersOptions {
  std::string conninfo{};
  std::size_t writers = 3;
  std::int64_t keys = 40;
  std::int64_t rows_max = 10'000;  // of a transaction; most are small
  std::chrono::microseconds pause = std::chrono::milliseconds(30);  // at most, between two
  std::chrono::microseconds hold = std::chrono::milliseconds(20);   // at most, inside of one
  std::uint64_t seed = 1;
  // While it is false none begins a transaction. Any thread; empty: always.
  std::function<bool()> may_write{};
};

// Makes dovetail's schema, with a partition for now, and the accounts whose versions are published.
Status open_accounts(const std::string& conninfo, std::int64_t keys);

// Writes one transaction of `rows` rows by COPY.
Status copy_in(const std::string& conninfo, std::int64_t rows, std::int64_t keys);

// Threads that write until stop() or the end of the scope, and fail the test when they cannot.
class WalWriters {
 public:
  explicit WalWriters(WalWritersOptions options);
  void stop();

  // So many transactions of this form have ended.
  std::uint64_t count(Form form) const { return counts_.at(static_cast<std::size_t>(form)); }
  std::uint64_t transactions() const;
  // For a claim: how many of each.
  std::string summary() const;

 private:
  const WalWritersOptions options_;
  std::array<std::atomic<std::uint64_t>, kForms> counts_{};
  std::vector<std::jthread> threads_{};
};

}  // namespace dovetail::shop
