// Builds running relays from the config file. The scheme of a store's url chooses the adapter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/clock.h"
#include "core/message/routing.h"
#include "core/metrics.h"
#include "core/operations.h"
#include "core/relay/origin_source.h"
#include "core/relay/relay.h"
#include "core/relay/sink.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// One relay with all its parts. One thread calls run(); any thread may read the metrics.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual Status run(std::stop_token stop) = 0;
  virtual const RelayMetrics& metrics() const = 0;
  // For a source without a count of pending events: since when it is open and brought nothing.
  // Empty: not open, or it has a count. Any thread.
  virtual std::optional<TimePoint> quiet_since() const { return std::nullopt; }
  // Everything up to this WAL position is settled; 0: it does not read the WAL. Any
  // thread.
  virtual std::uint64_t wal_settled() const { return 0; }
};

// Makes the sink of a lane; the sink must not block the relay's thread. Lanes count from
// 0.
using MakeSink = std::function<std::unique_ptr<Sink>(std::uint32_t lane)>;

// The parts of a lane. The store and the relay must outlive it.
struct LanePlan {
  const config::StoreConfig& from;  // not used with an origin
  const config::RelayConfig& relay;
  std::string target;                      // the other end, see target.h
  SourceKind source = SourceKind::outbox;  // if a SQLite store is read
  std::vector<std::string> only_topics{};  // of a mailbox; empty: all
  Origin origin{};                         // the broker that is read; empty: `from` is read
  std::optional<TopicTemplate> topics{};   // empty: events keep their topics
  MakeSink make_sink{};
  std::function<void(const RelayNotice&)> notify{};  // called on any thread
};

// `config` must outlive the lane. `notify` is called on the thread that runs it.
Result<std::unique_ptr<Lane>> make_lane(const config::Config& config,
                                        const config::RelayConfig& relay, Clock& clock,
                                        std::function<void(const RelayNotice&)> notify);

// The same from its parts. `home` keeps the lease, the counts and the parked events of a broker's
// reader, under the relay's name. One process reads the broker and the others stand by, even if the
// broker's groups would allow more: so the order holds for every broker, also behind a parked
// event.
std::unique_ptr<Lane> make_lane(LanePlan plan, const config::StoreConfig& home, Clock& clock);

// The log level of a notice.
config::LogLevel level_of(RelayNotice::Kind kind);

// The options of a relay from the configuration, with its own jitter.
RelayOptions options_of(const config::RelayConfig& relay);
// A sink for a mailbox or a broker. If it cannot be made, open() returns why.
std::unique_ptr<Sink> make_sink(const config::StoreConfig& to, Clock& clock);
// A sink that could not be made: open() returns why.
std::unique_ptr<Sink> refused_sink(Error why);

}  // namespace dovetail::assembly
