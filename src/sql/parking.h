// Parked events of one lane, in a database.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/relay/parking.h"
#include "sql/heads.h"
#include "sql/lane.h"

namespace dovetail {

// A row is one event of one relay. It is parked, waiting, delivered or discarded; the last two are
// finished. See sql/heads.h for heads.
struct ParkingStatements {
  // $1 relay, $2 lane, $3 lanes, $4 limit. Returns aggregate type and id of the lane's heads that
  // have a key.
  std::string blocked_keys;
  // $1 relay, $2 aggregate type, $3 aggregate id. Returns a row if the key is blocked.
  std::string is_blocked;

  // $1 relay, $2 event id, $3 payload, $4 type, $5 aggregate type, $6 aggregate id. Returns state,
  // position, whether the stored event differs from $3 to $6, and whether it is discarded and was
  // published anew since. The row cannot change until the transaction ends.
  std::string find;
  // $1 relay, $2 event id, $3 position, $4 topic, $5 aggregate type, $6 aggregate id, $7 type,
  // $8 content type, $9 headers, $10 payload, $11 aggregate version, $12 created at, $13 state,
  // $14 attempts, $15 reason, $16 microseconds until it is due, $17 false. Without aggregate id the
  // row is a head. Changes no row if there is one with this id.
  std::string add;
  // The same. $17: the event was finished, so its note is empty again and it is parked from now on.
  std::string change;

  HeadStatements heads;

  // $1 relay, $2 lane, $3 lanes, $4 limit, $5 longest pause in microseconds. Returns number,
  // aggregate type, aggregate id and bytes of the payload of waiting heads. Those that are due by
  // the database's clock come first, then those that are due later than the longest pause: that
  // clock was set back. See is_due().
  std::string due_heads;
  // $1 relay, $2 aggregate type, $3 aggregate id, $4 limit, $5 longest pause in microseconds.
  // Returns number, whether it waits and is due, and bytes of the payload of the unfinished events
  // of a key, by position.
  std::string line;
  // $1 number. Returns nothing if the event does not wait. Else position, event id, topic,
  // aggregate type, aggregate id, type, content type, headers, payload, aggregate version, created
  // at, attempts, replays.
  std::string event;

  // $1 relay, $2 event id. Returns aggregate type and id if the event is unfinished. The row cannot
  // change until the transaction ends.
  std::string unfinished;
  // $1 relay, $2 event id. An unfinished event becomes delivered and is no head.
  std::string finish;
  // $1 relay, $2 lane, $3 count. Adds to what the lane replayed and delivered.
  std::string count_replayed;
};

// Rows belong to the relay; a lane sees those of its own keys. `add`, `change` and `finish` make
// the commit wait for the disk wherever somebody relies on that.
class SqlParking : public Parking {
 public:
  // The references must outlive this.
  SqlParking(std::unique_ptr<SqlSession> session, const LaneStatements& lanes,
             const ParkingStatements& sql, SqlLane lane);

  Status open() override { return session_->connect(); }
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override;
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override;
  Status park(std::span<const ParkRequest> requests) override;
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override;
  Status delivered(std::span<const EventId> ids) override;

 protected:
  // An event and the id of its row.
  struct Kept {
    EventId id;
    const Event* event = nullptr;  // that was parked; null: delivered
  };
  // Called in the transaction that parks or finishes events, before it is committed.
  virtual Status changed(std::span<const Kept> events) {
    (void)events;
    return {};
  }
  void disconnect() { session_->close(); }

 private:
  struct Row;
  class Room;
  SqlParams lane_params() const;
  Result<std::vector<SqlRows>> find(std::span<const ParkRequest* const> requests);
  // Writes what may be written. Adds to `others` what differs from the event with its id.
  Status write(std::span<const ParkRequest* const> requests,
               std::vector<const ParkRequest*>& others, std::vector<Kept>& kept);
  Status write_rows(std::span<const Row> rows);
  Result<std::vector<SqlParams>> read_due(Room room, Duration pause_max);

  std::unique_ptr<SqlSession> session_;
  const LaneStatements& lanes_;
  const ParkingStatements& sql_;
  SqlLane lane_;
};

}  // namespace dovetail
