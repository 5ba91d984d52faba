// Shares the lanes of a relay among any number of processes.
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
  std::string relay;        // names the progress; all processes of one relay use the same
  std::string owner{};      // for people, such as host and process id
  std::string target{};     // where its events go, see bind_target(); empty: not said
  std::uint32_t lanes = 4;  // at the first start; later the number that was chosen then holds
  std::optional<TableMapping> mapping{};  // of a table to serve as it is; none: dovetail.outbox
  // How the outbox is read. The log needs one lane: with more, `automatic` reads the table, and
  // `wal` is refused.
  ReadMode mode = ReadMode::automatic;
  std::string replication_conninfo{};                     // past a pooler; empty: `conninfo`
  std::int64_t retained_wal_max = std::int64_t{1} << 30;  // the slot is given up beyond it
  Duration lease_term = std::chrono::seconds(10);  // how long others wait after a process died
  RelayOptions relay_options{};                    // of each lane
  const TopicTemplate* topics = nullptr;
  // Any thread. `lane` is -1 for what concerns the process as a whole.
  std::function<void(std::int32_t lane, const RelayNotice&)> notify = [](std::int32_t,
                                                                         const RelayNotice&) {};
  // Performance: how often a process says that it is alive and looks for lanes to take or to give.
  Duration heartbeat = std::chrono::seconds(1);
};

// Each lane that a process holds runs a relay of its own, in a thread of its own, with a connection
// and a sink of its own. Lanes are shared evenly: a process that has more than its part drains the
// rest and lets go of it, and the lanes of a process that died are taken over when their leases run
// out.
class Lanes {
 public:
  // Makes the sink of a lane; called whenever a lane is started.
  using MakeSink = std::function<std::unique_ptr<Sink>(std::uint32_t lane)>;

  Lanes(LanesOptions options, Clock& clock, MakeSink make_sink);
  ~Lanes();

  // Blocks until `stop` is requested and every lane has drained (ok), or until a lane must not go
  // on (corrupt, rejected): the others are drained then, too.
  Status run(std::stop_token stop);

  // Any thread: the lanes that this process runs now, in order.
  std::vector<std::uint32_t> held() const;
  // Of all lanes that were run since the start. Outlives none but this.
  const RelayMetrics& metrics() const;
  // Any thread: up to this position of the server's log everything is settled; 0: it is not read.
  std::uint64_t log_settled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Which part of `lanes` falls to the process that comes at `place` among `processes`.
std::uint32_t fair_share(std::uint32_t lanes, std::uint32_t place, std::uint32_t processes);

}  // namespace dovetail::postgres
