// Reads streams of Redis, as a consumer of a group.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "core/relay/source.h"
#include "redis/connection.h"
#include "redis/entry_id.h"
#include "redis/options.h"

namespace dovetail::redis {

// What the group has delivered and nobody has acknowledged comes first, in the order of the stream;
// then what is new. An entry is acknowledged by flush(), after it was settled.
//
// The group remembers what was given to which consumer, so the consumer's name must be the same
// after a restart. What other consumers hold is taken over once they have held it for
// `claim_after`; until then, or until it is acknowledged, an exclusive consumer gives out nothing
// of that stream that stands behind it, since it may be of the same keys. Consumers that share a
// group keep no order among each other.
//
// read() waits in slices of 100 ms, and notices a stop between them. Keeps what one answer of the
// server brought beyond the limits of a read: at most `fetch_events_max` entries of each stream,
// fewer where they are large.
class RedisSource final : public Source {
 public:
  RedisSource(Options options, Clock& clock);

  // Makes groups that are not there, and their streams.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

  // Entries that were pending and had been deleted from the stream before they came to us.
  std::uint64_t deleted() const { return deleted_; }

 private:
  enum class Phase : std::uint8_t {
    recovery,  // of what is pending, from the beginning
    fresh,     // what nobody was given yet
  };
  struct Stream {
    std::string name;
    Phase phase = Phase::recovery;
    EntryId last_pending{};          // that was read in recovery
    std::string cursor = "0-0";      // of sweeps
    TimePoint look_at{};             // when what others hold is looked at next
    std::int64_t position = 0;       // of the last entry given out
    std::vector<EntryId> settled{};  // and not acknowledged
  };
  // An entry that was fetched and not given out.
  struct Fetched {
    std::size_t stream;
    EntryId id;
    Value fields;
  };
  struct Held {  // given out and not settled
    std::size_t stream;
    EntryId id;
  };

  Status prepare(Stream& stream);
  void give_out(Batch& out, const Limits& limits);
  void append(const Fetched& entry, Batch& out);

  // Fetches something, or finds that nothing is there; waits at most `wait_max` for it.
  Status fetch(const Limits& limits, Duration wait_max, std::stop_token stop);
  Status advance(std::size_t stream, std::size_t count);
  void begin_recovery(Stream& stream);
  Status recover(std::size_t stream, std::size_t count);
  Status claim(const Stream& stream);
  Result<std::optional<EntryId>> oldest_of_others(const Stream& stream);
  Status read_fresh(std::size_t count, Duration wait_max);
  Status keep_fresh(std::size_t stream, Value entries);
  Status sweep(std::size_t stream, std::size_t count);
  Result<Reply> answer(std::string_view what, Duration wait_max = Duration{0});
  void begin_read(std::size_t arguments, std::size_t count);
  // Takes entries up to the first behind `before`; returns how many those are.
  std::size_t keep(std::size_t stream, Value entries, std::optional<EntryId> before = {});
  void adapt(std::size_t bytes_max);
  bool is_known(std::size_t stream, const EntryId& id) const;

  Options options_;
  Clock& clock_;
  MessageReader reader_;
  Connection connection_;
  std::vector<Stream> streams_;
  std::vector<Reply> replies_;  // that hold what is fetched
  std::deque<Fetched> fetched_;
  std::deque<Held> held_;
  std::vector<MessageHeader> headers_;  // scratch
  std::size_t fetch_count_ = 0;         // of the next answer
  std::size_t fetched_bytes_ = 0;       // of the last one
  std::uint64_t deleted_ = 0;
};

}  // namespace dovetail::redis
