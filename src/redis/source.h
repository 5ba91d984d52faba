// Reads Redis streams, as a consumer of a group.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
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

// First come the entries that the group has delivered and nobody has acknowledged, in stream
// order; then new ones. flush() acknowledges settled entries.
//
// The group remembers which consumer got an entry, so the consumer's name must stay the same
// after a restart. Entries of another consumer are taken over after `redeliver_after`. Until then,
// or until they are acknowledged, an exclusive consumer returns nothing of that stream after them,
// because it could belong to the same keys. Consumers that share a group keep no order among each
// other.
//
// read() waits in slices of 100 ms and checks for a stop between them. If an answer exceeds the
// limits of a read, the rest is kept: at most `prefetch` entries of each stream, fewer if
// they are large.
class RedisSource final : public Source {
 public:
  RedisSource(Options options, Clock& clock);

  // Creates missing groups and their streams.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

  // Pending entries that were deleted from the stream before we got them.
  std::uint64_t deleted() const { return deleted_; }

 private:
  enum class Phase : std::uint8_t {
    recovery,  // pending entries, from the start
    fresh,     // entries that no consumer got yet
  };
  struct Stream {
    std::string name;
    Phase phase = Phase::recovery;
    EntryId last_pending{};          // the last one read in recovery
    std::string cursor = "0-0";      // of sweeps
    TimePoint look_at{};             // when to check next what others hold
    std::int64_t position = 0;       // of the last entry returned
    std::vector<EntryId> settled{};  // and not acknowledged
  };
  // An entry that was fetched and not read yet.
  struct Fetched {
    std::size_t stream;
    EntryId id;
    Value fields;
  };
  struct Held {  // read and not settled
    std::size_t stream;
    EntryId id;
  };

  Status prepare(Stream& stream);
  void give_out(Batch& out, const Limits& limits);
  void append(const Fetched& entry, Batch& out);

  // Fetches entries, or finds that there are none; waits at most `wait_max`.
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
  // Takes entries up to the first one after `before`; returns their number.
  std::size_t keep(std::size_t stream, Value entries, std::optional<EntryId> before = {});
  void adapt(std::size_t bytes_max);
  bool is_known(std::size_t stream, const EntryId& id) const;

  Options options_;
  Clock& clock_;
  MessageReader reader_;
  Connection connection_;
  std::vector<Stream> streams_;
  std::vector<Reply> replies_;  // hold the fetched entries
  std::deque<Fetched> fetched_;
  std::deque<Held> held_;
  std::vector<MessageHeader> headers_;  // reused
  std::size_t fetch_count_ = 0;         // for the next answer
  std::size_t fetched_bytes_ = 0;       // of the last answer
  std::uint64_t deleted_ = 0;
};

// No call of it takes longer than `call_max` beyond the wait that it is asked for, except open().
std::unique_ptr<Source> make_source(Options options, Duration call_max, Clock& clock);

}  // namespace dovetail::redis
