// Compares what an outbox published with what receivers have, in one pass over both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/reconcile/rows.h"

namespace dovetail::reconcile {

struct Receiver {
  std::string name;                           // a handler of a consumer, or a topic
  std::function<bool(const Event&)> wants{};  // empty: every event
  WallTime forgotten_until = WallTime::min();
};

struct Rules {
  std::vector<Receiver> receivers{};
  // Events that were written in [from, to) are judged.
  WallTime from = WallTime::min();
  WallTime to = WallTime::max();
  // The outbox may have deleted older events whose ids have no time.
  WallTime untimed_from = WallTime::min();
  // More than this between the time of writing and the time of receiving is late; none: not judged.
  std::optional<Duration> late_after{};
  // What was written at this time or later may still be on its way to a receiver that has not got
  // it.
  WallTime on_the_way_since = WallTime::max();
  // The receivers also get events that this outbox never had.
  bool has_other_sources = false;
  std::size_t findings_max = 1000;  // listed of each kind; all of them count
};

enum class Kind : std::uint8_t { missing, extra, altered, late };
inline constexpr std::array kKinds = {Kind::missing, Kind::extra, Kind::altered, Kind::late};
std::string_view to_string(Kind kind);

// Holds no payload.
struct Finding {
  Kind kind = Kind::missing;
  std::string receiver{};
  EventId id{};
  std::string aggregate_type{};  // of an extra one the receiver does not know it
  std::string aggregate_id{};
  std::string type{};
  std::optional<WallTime> published{};
  std::optional<WallTime> received{};
  std::int32_t partition = -1;  // of a topic
  std::int64_t offset = -1;
};

// An event counts once for each receiver, except in `events` and `outside`.
struct Counts {
  std::uint64_t events = 0;   // published in the time that is judged
  std::uint64_t outside = 0;  // published before or after
  std::uint64_t received = 0;
  std::uint64_t missing = 0;
  std::uint64_t extra = 0;
  std::uint64_t altered = 0;  // of those received
  std::uint64_t late = 0;     // of those received
  // Not received, and why that is no finding.
  std::uint64_t parked = 0;
  std::uint64_t waiting = 0;    // not delivered yet, on its way, or behind a parked one
  std::uint64_t delayed = 0;    // waits for its time
  std::uint64_t discarded = 0;  // by an operator
  std::uint64_t skipped = 0;    // the receiver does not want it
  std::uint64_t forgotten = 0;  // the inbox may have applied and forgotten it
  // Good to know.
  std::uint64_t unverified = 0;  // received, with a payload that nobody knows
  std::uint64_t repeated = 0;    // more copies of a received one, as a topic has them
  std::uint64_t early = 0;    // received before it was published, by the two clocks, which disagree
  std::uint64_t foreign = 0;  // only the receiver has it, and it came from elsewhere
  std::uint64_t newer = 0;    // only the receiver has it, because it was published meanwhile

  std::uint64_t findings() const { return missing + extra + altered + late; }
};

struct Outcome {
  Counts counts{};
  std::vector<Finding> findings{};  // by kind, then by id
  // Of all findings, listed or not. SHA-256 over four digests in hexadecimal, in the order of
  // kKinds: each is the SHA-256 over the findings_line() of every finding of that kind, in the
  // order of ids.
  std::string findings_digest{};
  // SHA-256 over the id, the payload's digest and the result of everything that was judged.
  std::string compared_digest{};
  Duration longest{0};  // between publishing and receiving, of all that was received
};

// "missing stock.ledger 0190...\n"
std::string findings_line(Kind kind, std::string_view receiver, const EventId& id);

struct Sides {
  Stream<Published>& published;
  Stream<Received>& received;
  std::vector<Stream<Held>*> held{};
  // Which of these the outbox has by now. What a receiver has and the scan of the outbox does
  // not, may have been published after its page was read.
  std::function<Result<std::vector<EventId>>(std::span<const EventId>)> find_now{};
};

// Called now and then with how many events of the outbox were read. False: stop.
using Watch = std::function<bool(std::uint64_t read)>;

// The scan of the outbox must have been opened before that of the receivers. Errc::stopped: `watch`
// said so.
Result<Outcome> compare(const Rules& rules, const Sides& sides, const Watch& watch = {});

}  // namespace dovetail::reconcile
