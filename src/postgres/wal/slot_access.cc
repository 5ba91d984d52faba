#include "postgres/wal/slot_access.h"

#include <memory>
#include <optional>
#include <utility>

#include "host/errand.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kEndsWithin = 500ms;

// A slot has everything that we miss only if we moved it last: it must be where we left it, in this
// server's own history, and have had the same publication all the time.
std::string why_not_resumed(const SlotState& slot, const SlotAccessOptions& asked,
                            const std::string& mark) {
  const SlotRecord& record = asked.record;
  if (!asked.distrusted.empty()) return asked.distrusted;
  if (record.slot != slot.name) return "nobody knows who made it";
  if (slot.plugin != "pgoutput") return "it is one of the plugin " + slot.plugin;
  if (slot.wal_status == "lost" || !slot.invalidation.empty())
    return "the server has given it up" +
           (slot.invalidation.empty() ? "" : " (" + slot.invalidation + ")");
  if (record.timeline != asked.server.timeline && !slot.synced)
    return "another server has taken over";
  if (record.publication != mark) return "the publication was changed";
  if (slot.confirmed > record.reported) return "somebody else made it or moved it";
  return {};
}

Error in_use(const SlotState& slot) {
  return {Errc::unavailable, "the slot " + slot.name + " is in use by the process " +
                                 std::to_string(slot.active_pid) +
                                 " of the server; it is waited for until that ends"};
}

Status check_foreign(const std::optional<SlotState>& slot, const SlotAccessOptions& asked) {
  const std::string name = "the slot " + asked.slot;
  if (!slot)
    return fail(Errc::rejected, name +
                                    " is not there to be taken over; check the key `slot`, or "
                                    "leave it out to begin with what the table holds");
  if (slot->plugin != "pgoutput")
    return fail(Errc::rejected, name + " is one of the plugin " + slot->plugin +
                                    ", and cannot be taken over; check the key `slot`");
  if (slot->wal_status == "lost" || !slot->invalidation.empty())
    return fail(Errc::rejected, name +
                                    " is lost, and cannot be taken over; leave the key `slot` "
                                    "out to begin with what the table holds");
  if (slot->active) return fail(in_use(*slot));
  return {};
}

// Decides what happens to a lasting slot.
Status look_at_slot(Connection& sql, const SlotAccessOptions& asked, SlotAccess& access) {
  const Result<std::optional<SlotState>> found = find_slot(sql, asked.slot);
  if (!found) return fail(found.error());
  const std::optional<SlotState>& slot = *found;
  if (slot && slot->database != asked.server.database)
    return fail(Errc::rejected, "the slot " + asked.slot + " is one of the database \"" +
                                    slot->database + "\"; check the key `slot`");
  if (asked.takes_over) {
    DOVETAIL_TRY(check_foreign(slot, asked));
  } else if (!slot) {
    if (asked.record.slot == asked.slot) access.lost = "the slot " + asked.slot + " is gone";
    return {};
  } else if (const std::string why = why_not_resumed(*slot, asked, access.publication);
             !why.empty()) {
    access.lost = "cannot resume the slot " + asked.slot + ": " + why;
    return drop_slot(sql, asked.slot, asked.held);
  } else if (slot->active) {
    return fail(in_use(*slot));
  }
  access.resumes = true;
  access.confirmed = slot->confirmed;
  return {};
}

Error not_wanted() { return {Errc::stopped, "the slot is not needed any more; the relay stops"}; }

}  // namespace

Result<SlotAccess> find_slot_access(const SlotAccessOptions& asked, const std::stop_token& stop) {
  Result<Connection> sql = Connection::open(asked.conninfo);
  if (!sql) return fail(sql.error());
  if (stop.stop_requested()) return fail(not_wanted());
  const Result<ServerIdentity> server = identify(*sql);
  if (!server) return fail(server.error());
  if (*server != asked.server)
    return fail(Errc::unavailable,
                "the connection for replication leads to another server than that of the table; "
                "check replication_url");
  SlotAccess access;
  // Read before the slot is checked: a change in between is seen later.
  Result<std::string> mark = publication_mark(*sql, asked.published);
  if (!mark) return fail(mark.error());
  access.publication = std::move(*mark);
  const Result<std::optional<std::string>> cannot = why_not_streamed(
      *sql, asked.checks_publication ? std::string_view(asked.published.publication)
                                     : std::string_view());
  if (!cannot) return fail(cannot.error());
  if (*cannot) return fail(Errc::rejected, **cannot);
  if (stop.stop_requested()) return fail(not_wanted());
  if (!asked.temporary) DOVETAIL_TRY(look_at_slot(*sql, asked, access));
  if (asked.drops_only) return access;
  Result<Replication> opened = Replication::open(asked.conninfo);
  if (!opened) return fail(opened.error());
  access.replication = std::move(*opened);
  return access;
}

SlotSearch::~SlotSearch() {
  stop_.request_stop();
  if (found_.valid()) (void)found_.wait_for(kEndsWithin);
}

void SlotSearch::begin(SlotAccessOptions asked) {
  auto find = std::make_shared<std::packaged_task<Result<SlotAccess>()>>(
      [asked = std::move(asked), stop = stop_.get_token()] {
        return find_slot_access(asked, stop);
      });
  found_ = find->get_future();
  run_errand([find] { (*find)(); });
}

bool SlotSearch::has_ended() const { return found_.wait_for(0s) == std::future_status::ready; }

void SlotSearch::abandon() {
  stop_.request_stop();
  stop_ = {};
}

}  // namespace dovetail::postgres
