// Common schemes instead of an inbox. Each of them loses or doubles effects, and the proofs must
// show it.
#pragma once

#include <functional>
#include <string>

#include "core/inbox/inbox.h"
#include "dovetail/postgres_consumer.h"
#include "postgres/connection/connection.h"

namespace dovetail::shop {

enum class Scheme : std::uint8_t {
  row_first,      // commits the row before the work: a crash in between loses the effect
  effect_first,   // commits the work before the row: a crash in between doubles it
  look_then_act,  // checks for the row, works, adds the row: two at once both work
};

// Its own table, not dovetail's.
Status create_naive_table(const std::string& conninfo);

// One thread at a time.
class NaiveStore final : public InboxStore {
 public:
  struct Options {
    std::string conninfo;
    Scheme scheme = Scheme::row_first;
    postgres::Handler handler;
    // Called between the two commits.
    std::function<void()> between = [] {};
  };
  explicit NaiveStore(Options options) : options_(std::move(options)) {}

  Result<bool> open() override;
  Status begin() override;
  Status insert(Events events, std::span<Arrival> arrivals) override;
  Status apply(Events events) override;
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override;
  void rollback() override;
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override;
  Status close() override;

 private:
  Status add_rows();

  Options options_;
  postgres::Connection connection_;
  std::vector<EventId> ids_;  // of the open transaction
};

}  // namespace dovetail::shop
