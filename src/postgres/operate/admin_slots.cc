#include "postgres/operate/admin_slots.h"

#include <algorithm>
#include <utility>

#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

struct Owner {
  std::string relay;
  std::string slot;  // that it wrote down; empty: none
};

// Where there is no schema, or one that knows nothing of slots, nobody is known.
Result<std::vector<Owner>> read_owners(Connection& connection) {
  const Result<Rows> known = connection.query(
      "SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = "
      "pg_catalog.to_regclass('dovetail.relay_lane') AND attname = 'slot' AND NOT attisdropped");
  if (!known) return fail(known.error());
  std::vector<Owner> owners;
  if (known->int8(0, 0) == 0) return owners;
  const Result<Rows> rows =
      connection.query("SELECT relay, slot FROM dovetail.relay_lane ORDER BY relay, lane");
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i)
    owners.push_back({std::string(rows->text(i, 0)), std::string(rows->text(i, 1))});
  return owners;
}

// One that ends with its stream has a name that begins like that of the one that would stay.
bool is_of(const SlotState& slot, const Owner& owner, const std::string& database) {
  if (slot.name == owner.slot) return true;
  const std::string own = slot_name(owner.relay, database);
  return slot.name == own || slot.name.starts_with(own + "_");
}

// Before the drop: it is the slot that proves what is written down.
Status write_down(Connection& connection, const WalSlot& slot) {
  const Result<Rows> may = connection.query(
      "SELECT coalesce(pg_catalog.has_function_privilege(pg_catalog.to_regprocedure("
      "'dovetail.note_slot_drop(text, text)'), 'EXECUTE'), false)");
  if (!may) return fail(may.error());
  // A role that may replicate need not be an operator's, and a slot may outlive the schema.
  if (!may->boolean(0, 0)) return {};
  const Result<Rows> written = connection.query("SELECT dovetail.note_slot_drop($1, $2)",
                                                Params().text(slot.name).text(slot.relay));
  if (!written) return fail(written.error());
  return {};
}

Error no_such_slot(const std::string& name) {
  return {Errc::rejected, "dovetail has no slot \"" + name +
                              "\" in this cluster; `dovetail slots` lists its slots"};
}

}  // namespace

Result<std::vector<WalSlot>> list_wal_slots(Connection& connection) {
  const Result<Rows> here = connection.query("SELECT pg_catalog.current_database()::text");
  if (!here) return fail(here.error());
  const std::string database(here->text(0, 0));
  const Result<std::vector<Owner>> owners = read_owners(connection);
  if (!owners) return fail(owners.error());
  Result<std::vector<SlotState>> found = list_slots(connection);
  if (!found) return fail(found.error());
  for (const Owner& owner : *owners) {
    const bool is_listed =
        owner.slot.empty() || std::any_of(found->begin(), found->end(), [&](const SlotState& slot) {
          return slot.name == owner.slot;
        });
    if (is_listed) continue;
    Result<std::optional<SlotState>> taken = find_slot(connection, owner.slot);
    if (!taken) return fail(taken.error());
    if (*taken) found->push_back(std::move(**taken));
  }
  std::vector<WalSlot> slots;
  for (SlotState& state : *found) {
    WalSlot& slot = slots.emplace_back();
    static_cast<SlotState&>(slot) = std::move(state);
    slot.is_here = slot.database == database;
    for (const Owner& owner : *owners) {
      if (slot.is_here && slot.relay.empty() && is_of(slot, owner, database))
        slot.relay = owner.relay;
    }
  }
  return slots;
}

Result<std::vector<WalSlot>> list_wal_slots(const std::string& url) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  return list_wal_slots(*connection);
}

Status drop_wal_slot(const std::string& url, const std::string& name, bool force) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Result<std::vector<WalSlot>> slots = list_wal_slots(*connection);
  if (!slots) return fail(slots.error());
  const auto slot = std::find_if(slots->begin(), slots->end(),
                                 [&](const WalSlot& one) { return one.name == name; });
  if (slot == slots->end()) return fail(no_such_slot(name));
  if (slot->temporary)
    return fail(Errc::rejected,
                "the slot " + name + " is temporary and ends with its stream; stop its relay");
  if (!slot->is_here && !slot->active && !force)
    return fail(Errc::rejected, "the slot " + name + " belongs to the database \"" +
                                    slot->database +
                                    "\", whose relays are not known here; drop it through a store "
                                    "of that database, or add --force if no relay needs it");
  if (!slot->relay.empty() && !slot->active && !force)
    return fail(Errc::rejected,
                "the relay \"" + slot->relay + "\" uses the slot " + name +
                    ": without it, the relay reads events from the table, and never sees rows of a "
                    "mapped table that are deleted by then; add --force if that is intended");
  // One that is in use is not dropped.
  if (!slot->active) DOVETAIL_TRY(write_down(*connection, *slot));
  return drop_slot(*connection, name);
}

}  // namespace dovetail::postgres
