// Parked events of one lane, in the database that it reads.
#pragma once

#include "core/relay/parking.h"
#include "postgres/lane/reader.h"

namespace dovetail::postgres {

// Rows belong to the relay; a lane sees those of its own slots.
class PostgresParking : public Parking {
 public:
  explicit PostgresParking(Reader& reader) : reader_(reader) {}

  Status open() override;
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override;
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override;
  Status park(std::span<const ParkRequest> requests) override;
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override;
  Status delivered(std::span<const EventId> ids) override;

 protected:
  // An event as it is kept here.
  struct Kept {
    EventId id;
    const Event* event = nullptr;  // that was parked; null: delivered
  };
  // Called in the transaction that parks or finishes events, before it is committed.
  virtual Status changed(std::span<const Kept> events) {
    (void)events;
    return {};
  }

 private:
  // Writes what may be written, and adds to `others` what is another event than that of its id
  // here.
  Status write(std::span<const ParkRequest* const> requests,
               std::vector<const ParkRequest*>& others);
  Status refresh_heads(std::span<const std::string_view> types,
                       std::span<const std::string_view> ids);

  Reader& reader_;
};

// The highest position among those of the relay that are not finished; 0: there are none.
Result<std::int64_t> last_parked_position(Reader& reader);

}  // namespace dovetail::postgres
