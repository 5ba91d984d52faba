#include "sqlite/operate/doctor.h"

#include <filesystem>

#include "core/findings.h"
#include "sqlite/connection/database.h"
#include "sqlite/operate/admin.h"

namespace dovetail::sqlite {

namespace {

using F = const Facts&;

constexpr std::int64_t kWalBytesMax = 256 << 20;

constexpr Check kNoTables{Severity::warning, "no-tables", nullptr,
                          "there are no tables of dovetail yet",
                          "run 'dovetail init', which creates them"};

constexpr Check kFile[] = {
    {Severity::warning, "file-mode", [](F f) { return f.has("open_files"); },
     "payloads can be read by others than the owner: {open_files}",
     "run 'chmod 600' on it, unless a service of another user shares the file"},
    {Severity::error, "journal-mode", [](F f) { return !f.is("journal_mode", "wal"); },
     "the journal mode is {journal_mode}, so the relay and the service lock each other out",
     "run 'dovetail init', which sets it to wal, while nobody uses the file"},
    {Severity::warning, "wal-size", [](F f) { return f.number("wal_bytes") > kWalBytesMax; },
     "the write-ahead log has {wal_bytes:bytes}",
     "look for a process that keeps a read transaction open"},
};

constexpr Check kForgetting{
    Severity::error, "inbox-forgets-new-events", nullptr,
    "the consumer \"{consumer}\" parks every event up to {until} as possibly forgotten, and that "
    "time is in the future: a clock was wrong when old rows were deleted",
    "find the time of that deletion and run 'dovetail inbox remember --since' with it"};

constexpr Check kRelay[] = {
    {Severity::warning, "parked", [](F f) { return f.number("parked") > 0; },
     "parked events of {relay}, which wait for an operator: {parked}; events that wait behind them "
     "or for their next try: {waiting}",
     "list them with 'dovetail parked list', then replay or discard them"},
    {Severity::error, "relay-not-running",
     [](F f) {
       return f.number("pending") > 0 && f.number("lease_left") <= 0 && f.text("hold").empty();
     },
     "{pending} events wait for {relay}, which is not running", "start it with 'dovetail run'"},
    {Severity::warning, "relay-held", [](F f) { return !f.text("hold").empty(); },
     "{relay} is {hold} by {hold_by}: {hold_reason}; {pending} events wait for it, and nothing "
     "that "
     "it has not passed is deleted",
     "'dovetail relay resume' lets it continue"},
};

// The file, its WAL and its index contain payloads.
std::string open_files_of(const std::string& path) {
  using std::filesystem::perms;
  std::string open_files;
  for (const char* end : {"", "-wal", "-shm"}) {
    std::error_code missing;
    const std::string file = path + end;
    const perms mode = std::filesystem::status(file, missing).permissions();
    const bool is_open = (mode & (perms::group_read | perms::others_read)) != perms::none;
    if (!missing && is_open) open_files += (open_files.empty() ? "" : ", ") + file;
  }
  return open_files;
}

Result<Facts> facts_of(Database& database, const std::string& path, const StoreStatus& status) {
  auto mode = database.prepare("PRAGMA journal_mode");
  if (!mode) return fail(mode.error());
  const auto row = mode->step();
  if (!row) return fail(row.error());
  Facts facts;
  facts.set("journal_mode", mode->bytes(0)).set("wal_bytes", status.wal_bytes);
  const std::string open_files = open_files_of(path);
  if (!open_files.empty()) facts.set("open_files", open_files);
  return facts;
}

// A clock was wrong when rows were deleted.
Status examine_forgetting(Database& database, Clock& clock, Findings& findings) {
  auto ahead = database.prepare(
      "SELECT name, strftime('%Y-%m-%dT%H:%M:%SZ', forgotten_until / 1000000, 'unixepoch') FROM "
      "dovetail_consumer WHERE forgotten_until > ?1 ORDER BY name");
  if (!ahead) return fail(ahead.error());
  ahead->bind(1, to_stored(clock.wall() + std::chrono::hours(1)));
  while (true) {
    const auto row = ahead->step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    findings.add(kForgetting,
                 Facts().set("consumer", ahead->bytes(0)).set("until", ahead->bytes(1)));
  }
}

}  // namespace

Result<std::vector<Finding>> examine(const std::string& path, Clock& clock) {
  Findings findings;
  const auto is_there = has_tables(path);
  if (!is_there) return fail(is_there.error());
  if (!*is_there) {
    findings.add(kNoTables, {});
    return findings.take();
  }
  const auto found = status(path, clock);
  if (!found) return fail(found.error());
  auto database = Database::open(path);
  if (!database) return fail(database.error());
  const auto facts = facts_of(*database, path, *found);
  if (!facts) return fail(facts.error());
  findings.check(kFile, *facts);
  DOVETAIL_TRY(examine_forgetting(*database, clock, findings));
  for (const RelayStatus& relay : found->relays)
    findings.check(kRelay, Facts()
                               .set("relay", relay.name)
                               .set("parked", relay.parked)
                               .set("waiting", relay.waiting)
                               .set("pending", relay.pending)
                               .set("hold", to_string(relay.hold.hold))
                               .set("hold_by", relay.hold.by)
                               .set("hold_reason", relay.hold.reason)
                               .set("lease_left", relay.lease_left));
  return findings.take();
}

}  // namespace dovetail::sqlite
