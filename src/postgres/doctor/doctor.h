// Looks at a database the way an experienced operator would, and says what is wrong and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/operations.h"
#include "core/relay/read_mode.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// A relay or a consumer that is meant to read the WAL.
struct WalReader {
  std::string relay{};
  ReadOptions reading{};

  // It goes through a slot that stays, and does not run without the WAL.
  bool is_required() const { return reading.mode == ReadMode::wal; }
};

struct DoctorOptions {
  MappedRelays mapped{};
  std::vector<WalReader> wal_readers{};
  std::string replication_conninfo{};  // past a pooler; empty: the url
  // What the config says of the outbox, and brokers are compared with; 0: not known.
  std::size_t payload_bytes_max = 0;
  Duration transaction_age_max = std::chrono::minutes(5);
  Duration prepared_age_max = std::chrono::minutes(10);
  Duration lag_max = std::chrono::seconds(30);
  std::uint64_t pending_max = 1000;
  Duration clock_skew_max = std::chrono::seconds(2);
  Duration ahead_min = std::chrono::hours(24);
  std::uint64_t dead_rows_max = 10'000;         // together with a fifth of the live ones
  std::uint64_t default_rows_max = 1'000'000;   // of the inbox
  std::int64_t idle_slot_bytes_max = 64 << 20;  // of WAL, kept for a slot that nobody reads
  std::int64_t catalog_age_max = 50'000'000;    // transactions
  Duration slot_wait_max = std::chrono::seconds(30);
  Duration proof_wait_max = std::chrono::seconds(10);
};

// Changes nothing that lasts: where the WAL is to be read, a message is written into it, and read
// through a slot that ends with the connection. An error only when the database cannot be asked at
// all; whatever can be asked and is wrong is a finding. Errors come first.
Result<std::vector<Finding>> examine(const std::string& url, const DoctorOptions& options,
                                     Clock& clock);

}  // namespace dovetail::postgres
