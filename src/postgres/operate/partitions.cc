#include "postgres/operate/partitions.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace dovetail::postgres {

namespace {

// $1 the table.
constexpr std::string_view kPartitions =
    "SELECT c.relname::text, pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM "
    "pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
    "$1::pg_catalog.regclass";

constexpr std::string_view kCheckViolation = "23514";

// The least id of a time.
std::string id_at(std::int64_t ms) {
  EventId id;
  for (int i = 0; i < 6; ++i)
    id.bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
  return id.to_string();
}

std::int64_t ms_of(const EventId& id) {
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | id.bytes[i];
  return ms;
}

std::int64_t ms_of(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

std::string name_of(const std::string& table, std::int64_t from_ms) {
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(from_ms)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "_p%04d%02u%02u_%02d%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()));
  return table + name.data();
}

}  // namespace

std::optional<Partition> parse_bounds(std::string_view name, std::string_view bounds) {
  constexpr std::size_t kIdLength = 36;
  Partition partition{std::string(name)};
  std::array<std::int64_t*, 2> ends = {&partition.from, &partition.to};
  for (std::int64_t* end : ends) {
    const std::size_t quote = bounds.find('\'');
    if (quote == std::string_view::npos) return std::nullopt;
    const Result<EventId> id = EventId::parse(bounds.substr(quote + 1, kIdLength));
    if (!id) return std::nullopt;
    *end = ms_of(*id);
    bounds.remove_prefix(std::min(bounds.size(), quote + kIdLength + 2));
  }
  return partition;
}

bool is_passing(const Error& error) { return error.code == Errc::unavailable; }

std::string lock_limits(const MaintenanceOptions& options) {
  const auto ms = std::max<std::int64_t>(1, ms_of(options.lock_timeout));
  return "SET LOCAL lock_timeout = " + std::to_string(ms) +
         "; SET LOCAL statement_timeout = " + std::to_string(ms + 2000);
}

std::string Partition::qualified() const { return "dovetail." + *quoted_name(name); }

Result<std::vector<Partition>> PartitionedTable::partitions() {
  const Result<Rows> rows = connection_.query(kPartitions, Params().unknown("dovetail." + name_));
  if (!rows) return fail(rows.error());
  std::vector<Partition> found;
  for (std::size_t i = 0; i < rows->size(); ++i)
    if (auto partition = parse_bounds(rows->text(i, 0), rows->text(i, 1)); partition)
      found.push_back(std::move(*partition));
  std::sort(found.begin(), found.end(),
            [](const Partition& a, const Partition& b) { return a.from < b.from; });
  return found;
}

Status PartitionedTable::create_ahead(std::int64_t now_ms) {
  const Result<std::vector<Partition>> existing = partitions();
  if (!existing) return fail(existing.error());
  const std::int64_t span = ms_of(options_.partition_span);
  const std::int64_t end = now_ms + ms_of(options_.ahead);
  std::int64_t at = now_ms - now_ms % span;
  auto next = existing->begin();
  while (at < end && !default_is_held_) {
    while (next != existing->end() && next->to <= at) ++next;
    if (next != existing->end() && next->from <= at) {
      at = next->to;
      continue;
    }
    std::int64_t to = at - at % span + span;
    if (next != existing->end()) to = std::min(to, next->from);
    DOVETAIL_TRY(create(Partition{name_of(name_, at), at, to}));
    at = to;
  }
  return {};
}

// Made apart and attached, because that waits for no writers of other partitions, nor they for it.
// The default partition is locked and looked through: what is large there takes its time.
Status PartitionedTable::create(const Partition& partition) {
  Result<Transaction> transaction = Transaction::begin(connection_);
  if (!transaction) return fail(transaction.error());
  const Status made = connection_.execute(
      lock_limits(options_) + "; CREATE TABLE " + partition.qualified() + " (LIKE dovetail." +
      name_ +
      " INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE); ALTER "
      "TABLE dovetail." +
      name_ + " ATTACH PARTITION " + partition.qualified() + " FOR VALUES FROM ('" +
      id_at(partition.from) + "') TO ('" + id_at(partition.to) + "')");
  if (made) {
    DOVETAIL_TRY(transaction->commit());
    report_.created.push_back(partition.name);
    return {};
  }
  if (!connection_) return fail(made.error());
  if (is_passing(made.error())) {
    default_is_held_ = true;
    report_.notes.push_back(
        "the partition " + partition.name +
        " cannot be created now and is left for the next run: " + made.error().text);
    return {};
  }
  // A table that is empty violates nothing else.
  if (connection_.sqlstate() == kCheckViolation) {
    report_.notes.push_back("the partition " + partition.name +
                            " is left out: rows of its time are in the default partition "
                            "already, and are deleted there in small steps");
    return {};
  }
  return fail(made.error());
}

Status PartitionedTable::remove(const Partition& partition) {
  if (is_held_) return stays_empty(partition);
  Result<Transaction> transaction = Transaction::begin(connection_);
  if (!transaction) return fail(transaction.error());
  Status done =
      connection_.execute(lock_limits(options_) + "; LOCK TABLE ONLY dovetail." + name_ +
                          ", ONLY " + partition.qualified() + " IN ACCESS EXCLUSIVE MODE");
  if (done) {
    const Result<Rows> since =
        connection_.query("SELECT EXISTS (SELECT 1 FROM " + partition.qualified() + ")");
    if (!since) return fail(since.error());
    if (since->boolean(0, 0)) {
      report_.notes.push_back("the partition " + partition.name +
                              " stays: something came into it just now");
      return {};
    }
    done = connection_.execute("DROP TABLE " + partition.qualified());
  }
  if (done) {
    DOVETAIL_TRY(transaction->commit());
    report_.dropped.push_back(partition.name);
    return {};
  }
  if (!is_passing(done.error()) || !connection_) return fail(done.error());
  is_held_ = true;
  return stays_empty(partition);
}

Status PartitionedTable::stays_empty(const Partition& partition) {
  report_.notes.push_back("the partition " + partition.name +
                          " is empty, and its table is left for the next run: " + users_ +
                          " hold the " + name_ + ", and they are not made to wait");
  return {};
}

}  // namespace dovetail::postgres
