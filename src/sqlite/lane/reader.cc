#include "sqlite/lane/reader.h"

#include "host/host.h"
#include "sql/first_start.h"
#include "sqlite/connection/session.h"
#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

std::string_view table_of(SourceKind source) {
  return source == SourceKind::outbox ? "dovetail_outbox" : "dovetail_mailbox";
}

std::string sampled_at(const std::string& now) {
  const std::string is_due = "CASE WHEN abs(" + now + " - sample_at) >= 5000000 THEN ";
  return "updated_at = " + now + ", previous_at = " + is_due +
         "sample_at ELSE previous_at END, previous_total = " + is_due +
         "sample_total ELSE previous_total END, sample_total = " + is_due +
         "delivered_total + parked_total - replayed_total ELSE sample_total END, sample_at = " +
         is_due + now + " ELSE sample_at END ";
}

const std::string& update_progress_sql() {
  static const std::string update =
      "UPDATE dovetail_relay SET passed_seq = ?3, delivered_total = delivered_total + ?4 - ?5 - "
      "?7, parked_total = parked_total + ?5, skipped_total = skipped_total + ?7, " +
      sampled_at("?6") + "WHERE relay = ?1 AND (epoch = ?2 OR ?2 = -1)";
  return update;
}

std::string stored_topics(const std::vector<std::string>& topics) {
  std::string text;
  for (const std::string& topic : topics) text += "\n" + topic + "\n";
  return text;
}

Status ensure_reader(Database& database, const Reader& reader) {
  const std::string topics = stored_topics(reader.topics);
  const Carried carried{.filter = reader.filter, .topics = topics};
  SqliteSession session(database.get(), system_clock(), std::string());
  const Result<std::uint32_t> started = start_relay(session, first_start_statements(),
                                                    {.relay = reader.name,
                                                     .source = reader.source,
                                                     .starts_now = reader.starts_now,
                                                     .target = reader.target},
                                                    &carried);
  if (!started) return fail(started.error());
  return {};
}

}  // namespace dovetail::sqlite
