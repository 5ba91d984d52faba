// A table that is partitioned by ranges of ids, which begin with their time: its partitions are
// made ahead and removed when they are old, without making others wait.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/connection/connection.h"
#include "postgres/operate/maintenance.h"

namespace dovetail::postgres {

// Times are milliseconds since 1970, as the first 48 bits of an id say them.
struct Partition {
  std::string name;  // without the schema
  std::int64_t from = 0;
  std::int64_t to = 0;

  std::string qualified() const;  // quoted, with the schema
};

// `bounds`: "FOR VALUES FROM ('...') TO ('...')" with an id in each place, as the catalog has it.
// None: they are others, such as DEFAULT.
std::optional<Partition> parse_bounds(std::string_view name, std::string_view bounds);

// One thread at a time; a part of one call of maintain(). What must be left for the next time is a
// note in the report, and no error.
class PartitionedTable {
 public:
  // `name`: "outbox" or "inbox". `users`: who holds it, for the notes.
  PartitionedTable(Connection& connection, std::string name, std::string users,
                   const MaintenanceOptions& options, MaintenanceReport& report)
      : connection_(connection),
        name_(std::move(name)),
        users_(std::move(users)),
        options_(options),
        report_(report) {}

  // All but the default one, in the order of their times.
  Result<std::vector<Partition>> partitions();
  Status create_ahead(std::int64_t now_ms);
  // Drops a partition when nothing is in it.
  Status remove(const Partition& partition);

 private:
  Status create(const Partition& partition);
  Status stays_empty(const Partition& partition);

  Connection& connection_;
  const std::string name_;
  const std::string users_;
  const MaintenanceOptions& options_;
  MaintenanceReport& report_;
  // Asking again would make others wait again.
  bool default_is_held_ = false;
  bool is_held_ = false;
};

// Settings that end with the transaction. A statement that holds a lock is short, or given up.
std::string lock_limits(const MaintenanceOptions& options);

// Whether this is worth another try later, and nothing to stop for.
bool is_passing(const Error& error);

}  // namespace dovetail::postgres
