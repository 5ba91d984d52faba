// What a file keeps back for a relay or a consumer, in the order of event ids: parked, or in its
// mailbox and not passed yet.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/reconcile/rows.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// How far a relay or a consumer of the file is. None: it never ran here.
struct Passed {
  std::string source{};  // "outbox", "mailbox" or "broker"; empty: none
  std::string topics{};  // a line break around each; empty: all
  std::int64_t seq = 0;
};
Result<Passed> read_passed(const Database& database, const std::string& relay);

// One thread. What was delivered after `since` counts as waiting: it was parked at that time.
class HeldRows final : public reconcile::Pages<reconcile::Held> {
 public:
  HeldRows(const Database& database, std::string relay, Passed passed, WallTime since)
      : database_(database), relay_(std::move(relay)), passed_(std::move(passed)), since_(since) {}

 protected:
  Status read_page(std::vector<reconcile::Held>& page) override;

 private:
  const Database& database_;
  const std::string relay_;
  const Passed passed_;
  const WallTime since_;
  EventId last_{};
};

}  // namespace dovetail::sqlite
