// Claims of a consumer as rows of a database. See core/inbox/claims.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/inbox/claims.h"
#include "sql/session.h"

namespace dovetail {

// $1 the consumer's number and $2 the event's id, unless said otherwise.
struct ClaimStatements {
  // $1 name. Afterwards the consumer exists.
  std::string add_consumer;
  // $1 name. Returns its number.
  std::string consumer;
  // $1 how many. No claim ever had these epochs.
  std::string reserve_epochs;
  // Returns the last one that this transaction has reserved.
  std::string last_epoch;
  // Adds 1 to the attempts and sets $3 epoch, $4 lease in microseconds, $5 digest, $6 when the
  // event could first be applied (1970: its id has the time). Creates the claim if there is none.
  // Changes nothing if its lease is running, or it has another digest.
  std::string take;
  // Always returns one row: whether the inbox has the event, and its digest there (or null); the
  // claim's epoch (0: no claim), attempts and digest (or null); the time up to which this consumer
  // may have forgotten events; whether this event is known as not applied.
  std::string look;
  // $3 epoch. Adds the inbox row, with the claim's digest and time, unless it is there. Changes one
  // row or none.
  std::string apply;
  // $3 epoch. Deletes the claim.
  std::string drop;
  // $3 epoch, $4 attempts that do not count. Ends the lease, and no epoch fits the claim any more.
  std::string give_back;
  // Deletes a claim that is given back and has no attempts.
  std::string drop_untried;
  // $3 epoch of the claim. Writes down that the event is not applied.
  std::string note_unapplied;
  // $2 applied events, $3 duplicates. Adds them to the consumer's counts.
  std::string count;
};

// The rules of claims. The events of a call are claimed in the order of their ids, so that two
// processes never wait for each other.
class SqlClaimStore : public ClaimStore {
 public:
  // `consumer`: of the inbox rows, "mail" or "mail.welcome".
  SqlClaimStore(std::unique_ptr<SqlSession> session, const ClaimStatements& sql,
                std::string consumer);

  Status open() override;
  Result<std::vector<Claim>> claim(Events events, Duration lease) override;
  Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                  std::span<bool> done) override;
  Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                 ReleaseReason how) override;

 private:
  using Sets = std::vector<SqlParams>;
  struct Wanted;
  Status find_consumer();
  Result<std::int64_t> reserve_epochs(std::size_t count);
  Result<std::vector<Wanted>> in_order(Events events);
  Result<std::vector<SqlRows>> take(const std::vector<Wanted>& wanted, Duration lease);
  Status run_each(const std::string& sql, const Sets& sets);
  Sets held(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
            const std::vector<std::size_t>& order) const;
  Status count(std::uint64_t applied, std::uint64_t duplicates);
  SqlParams of(const EventId& id) const { return SqlParams().integer(consumer_id_).id(id); }

  std::unique_ptr<SqlSession> session_;
  const ClaimStatements& sql_;
  std::string consumer_;
  std::int64_t consumer_id_ = 0;
};

}  // namespace dovetail
