#include "sqlite/lane/parked_rows.h"

namespace dovetail::sqlite {

// Names the indexes, because without statistics the planner may choose one that walks over the
// whole key.
Status ParkedHeads::prepare(const Database& database) {
  DOVETAIL_TRY(database.prepare(
      clear_,
      "UPDATE dovetail_parked INDEXED BY dovetail_parked_head SET at_head = 0 "
      "WHERE relay = ?1 AND aggregate_type = ?2 AND aggregate_id = ?3 AND at_head = 1"));
  return database.prepare(
      set_,
      "UPDATE dovetail_parked SET at_head = 1 WHERE number = "
      "(SELECT number FROM dovetail_parked INDEXED BY dovetail_parked_key "
      "WHERE relay = ?1 AND aggregate_type = ?2 AND aggregate_id = ?3 AND finished_at = 0 "
      "ORDER BY position LIMIT 1)");
}

Status ParkedHeads::refresh(std::string_view reader, std::string_view aggregate_type,
                            std::string_view aggregate_id) {
  // Events without a key wait for no other event.
  if (aggregate_id.empty()) return {};
  for (Statement* statement : {&clear_, &set_}) {
    statement->bind_text(1, reader).bind_text(2, aggregate_type).bind_text(3, aggregate_id);
    DOVETAIL_TRY(statement->run());
  }
  return {};
}

}  // namespace dovetail::sqlite
