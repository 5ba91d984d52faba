// From the config file to running relays. The scheme of a store's url chooses the adapter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

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

// One relay with all that it works on. run() belongs to one thread; metrics may be read by any.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual Status run(std::stop_token stop) = 0;
  virtual const RelayMetrics& metrics() const = 0;
  // Of a source that cannot be asked what is pending there: since when it is open and has brought
  // nothing. None: it is not open, or it can be asked. Any thread.
  virtual std::optional<TimePoint> quiet_since() const { return std::nullopt; }
  // Up to this position of its database's log everything is settled; 0: that is not read. Any
  // thread.
  virtual std::uint64_t log_settled() const { return 0; }
};

// Makes the sink of one lane, which keeps its relay's thread free; the lanes of a relay are
// numbered from 0.
using MakeSink = std::function<std::unique_ptr<Sink>(std::uint32_t lane)>;

// What a lane is made of. The store and the relay must outlive it.
struct LanePlan {
  const config::StoreConfig& from;
  const config::RelayConfig& relay;
  std::string target;                      // the other end, see target.h
  SourceKind source = SourceKind::outbox;  // of a SQLite store that is read
  std::optional<TopicTemplate> topics{};   // none: events keep those that they come with
  MakeSink make_sink;
  std::function<void(const RelayNotice&)> notify;  // on any thread
};

// `config` must outlive the lane. `notify` is called on the thread that runs it.
Result<std::unique_ptr<Lane>> make_lane(const config::Config& config,
                                        const config::RelayConfig& relay, Clock& clock,
                                        std::function<void(const RelayNotice&)> notify);

// The same from its parts. `home` keeps the lease and the parked events where a broker is read.
std::unique_ptr<Lane> make_lane(LanePlan plan, const config::StoreConfig& home, Clock& clock);

// How loud an operator is told.
config::LogLevel level_of(RelayNotice::Kind kind);

// What the config says about a relay, with jitter of its own.
RelayOptions options_of(const config::RelayConfig& relay);
// Into the mailbox of a store, or a broker. One that cannot be made says why when it is opened.
std::unique_ptr<Sink> make_sink(const config::StoreConfig& to, Clock& clock);
// One that could not be made: it says why when it is opened.
std::unique_ptr<Sink> refused_sink(Error why);

}  // namespace dovetail::assembly
