// Parked events of a reader, in the file that it reads.
#pragma once

#include "core/relay/parking.h"
#include "sqlite/connection/database.h"
#include "sqlite/lane/parked_rows.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Writes keep their order with the source's progress in the same file: after a power cut, no event
// is settled without being parked. If the source is a broker, each write is on the disk when it
// returns.
class SqliteParking final : public Parking {
 public:
  SqliteParking(Reader& reader, Clock& clock);

  Status open() override;
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override;
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override;
  Status park(std::span<const ParkRequest> requests) override;
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override;
  Status delivered(std::span<const EventId> ids) override;

 private:
  Status keep(const ParkRequest& request, std::int64_t now);
  Status upsert(const ParkRequest& request, std::int64_t now);

  Reader& reader_;
  Clock& clock_;
  Database database_;
  ParkedHeads heads_;
  Statement select_epoch_;
  Statement select_blocked_;
  Statement select_is_blocked_;
  Statement select_other_;
  Statement upsert_;
  Statement select_due_heads_;
  Statement select_due_of_key_;
  Statement select_one_;
  Statement finish_;
  Statement count_replayed_;
};

}  // namespace dovetail::sqlite
