// The subcommands: what each can be told, and the function that does it. Each stands in a file of
// its own name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/command.h"
#include "core/clock.h"

namespace dovetail::app {

struct InitOptions {
  bool print_sql = false;  // instead of running it
  bool roles = false;      // also those of a PostgreSQL database
};
Answer init(const CommandContext& context, const InitOptions& options);

struct RunOptions {
  std::vector<std::string> relays;  // names; empty: all
  bool until_idle = false;          // stop when every relay has nothing left to do
  std::string idle_after = "5s";    // that nothing came from a broker
};
Answer run(const CommandContext& context, const RunOptions& options);

struct PublishOptions {
  std::string store;
  std::string aggregate_type;
  std::string key;
  std::string type;
  std::optional<std::string> payload;
  std::string payload_file;  // "-": stdin
  std::string content_type = "application/json";
  std::string topic;
  std::string id;
  std::int64_t version = 0;
  std::vector<std::string> headers;  // "name=value"
  std::string deliver_at;            // RFC 3339; empty: at once
};
Answer publish(const CommandContext& context, const PublishOptions& options);

struct StatusOptions {
  bool watch = false;
  Duration every = std::chrono::seconds(1);
};
Answer status(const CommandContext& context, const StatusOptions& options);

struct EventsOptions {
  std::string store;
  std::string reader;
  std::string box = "outbox";  // or "mailbox"
  std::string state;           // of EventState; empty: all but delayed
  std::string key;
  std::string type;
  std::int64_t after = 0;  // position
  std::size_t limit = 50;
};
Answer events_list(const CommandContext& context, const EventsOptions& options);
Answer events_show(const CommandContext& context, const std::string& id, const std::string& store,
                   bool with_payload);
// One that is delayed.
Answer events_cancel(const CommandContext& context, const std::string& id, const std::string& store,
                     const std::string& reason);

struct ParkedOptions {
  std::string store;
  std::string reader;
  std::vector<std::string> ids;
  std::string key;
  bool all = false;
  bool yes = false;
  std::string reason;
  std::size_t limit = 50;
};
Answer parked_list(const CommandContext& context, const ParkedOptions& options);
Answer parked_replay(const CommandContext& context, const ParkedOptions& options);
Answer parked_discard(const CommandContext& context, const ParkedOptions& options);

// Until SIGTERM or SIGINT.
Answer gateway(const CommandContext& context);

struct RequestsOptions {
  std::string store;
  std::string state;  // running, unknown, finished; empty: all
  std::string scope;
  std::string key;
  std::string reason;
  std::size_t limit = 50;
};
Answer requests_list(const CommandContext& context, const RequestsOptions& options);
Answer requests_forget(const CommandContext& context, const RequestsOptions& options);

struct ForgetOptions {
  std::string consumer;  // or one of its handlers: "stock.ledger"
  std::string id;
  std::string reason;
};
Answer inbox_forget(const CommandContext& context, const ForgetOptions& options);
Answer inbox_apply(const CommandContext& context, const ForgetOptions& options);

struct RememberOptions {
  std::string store;
  std::string since;  // RFC 3339
  std::string reason;
};
Answer inbox_remember(const CommandContext& context, const RememberOptions& options);

struct SlotsOptions {
  std::string store;
  std::string drop;  // the name of one; empty: they are listed
  bool force = false;
};
Answer slots(const CommandContext& context, const SlotsOptions& options);

struct RetargetOptions {
  std::string name;  // of a relay or a consumer
  std::string reason;
};
// Binds it to the target that the config file says.
Answer relay_retarget(const CommandContext& context, const RetargetOptions& options);

struct PruneOptions {
  std::string sent;  // durations as in the file; empty: what the file says
  std::string inbox;
};
Answer prune(const CommandContext& context, const PruneOptions& options);

// An empty name means every store.
Answer doctor(const CommandContext& context, const std::string& store_name);

struct DemoOptions {
  std::uint64_t orders = 2000;
  std::uint64_t kills = 8;
  std::string dir;         // empty: a temporary one, removed at the end
  bool plain = false;      // no moving display
  std::uint64_t seed = 0;  // 0: from the clock
  std::string role;        // of a child process
};
Answer demo(const CommandContext& context, const DemoOptions& options);

Answer version(const CommandContext& context);

}  // namespace dovetail::app
