// What is parked for a relay or a consumer, in the order of event ids.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/reconcile/rows.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// One thread. What was delivered after `since`, by the server's clock, counts as waiting: it was
// parked at that time.
class HeldRows final : public reconcile::Pages<reconcile::Held> {
 public:
  HeldRows(Connection& connection, std::string relay, WallTime since)
      : connection_(connection), relay_(std::move(relay)), since_(since) {}

 protected:
  Status read_page(std::vector<reconcile::Held>& page) override;

 private:
  Connection& connection_;
  const std::string relay_;
  const WallTime since_;
  EventId last_{};
};

// The server's clock, and who is logged in.
Result<reconcile::Place> read_place(Connection& connection);

}  // namespace dovetail::postgres
