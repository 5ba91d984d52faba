// Shares the lanes of a relay among processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/message/routing.h"
#include "core/relay/relay.h"
#include "core/relay/sink.h"
#include "postgres/lane/reader.h"
#include "postgres/mapped/table.h"
#include "postgres/wal/source.h"

namespace dovetail::postgres {

struct LanesOptions {
  // Behaviour
  std::string conninfo;
  std::string relay;        // names the progress; the same in all processes of a relay
  std::string owner{};      // for people, such as host and process id
  std::string target{};     // where its events go; empty: unknown
  std::uint32_t lanes = 4;  // for the first start; later starts keep that number
  bool starts_now = false;  // a first start leaves out what is there already
  std::optional<TableMapping> mapping{};  // of a mapped table; empty: dovetail.outbox
  // How the outbox is read. The WAL needs one lane: with more, `automatic` reads the table, and
  // `wal` is refused.
  ReadOptions reading{};
  std::string replication_conninfo{};              // without a pooler; empty: `conninfo`
  Duration lease_term = std::chrono::seconds(10);  // how long others wait after a process died
  RelayOptions relay_options{};                    // for each lane
  const TopicTemplate* topics = nullptr;
  // Called on any thread. `lane` is -1 for the whole process.
  std::function<void(std::int32_t lane, const RelayNotice&)> notify = [](std::int32_t,
                                                                         const RelayNotice&) {};
  // Performance: how often a process reports that it lives and looks for lanes to take or release.
  Duration heartbeat = std::chrono::seconds(1);
};

// Each lane that a process owns runs its own relay, with its own thread, connection
// and sink. Lanes are shared evenly: a process with more than its share drains and
// releases the rest. When a process dies, others take its lanes after their leases
// end.
class Lanes {
 public:
  // Makes the sink of a lane, each time the lane starts.
  using MakeSink = std::function<std::unique_ptr<Sink>(std::uint32_t lane)>;

  Lanes(LanesOptions options, Clock& clock, MakeSink make_sink);
  ~Lanes();

  // Blocks until `stop` is requested and every lane has drained (ok), or until one lane must not
  // continue (corrupt, rejected); then it drains the others, too.
  Status run(std::stop_token stop);

  // Any thread: the lanes that this process runs, in order.
  std::vector<std::uint32_t> held() const;
  // Sums over all lanes since the start. Valid as long as this object.
  const RelayMetrics& metrics() const;
  // Any thread: everything up to this WAL position is settled; 0: the WAL is not read.
  std::uint64_t wal_settled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How many of `lanes` the process at `place` among `processes` should run.
std::uint32_t fair_share(std::uint32_t lanes, std::uint32_t place, std::uint32_t processes);

}  // namespace dovetail::postgres
