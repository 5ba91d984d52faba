#include "sqlite/lane/reader.h"

#include "core/relay/target.h"

namespace dovetail::sqlite {

std::string_view table_of(SourceKind source) {
  return source == SourceKind::outbox ? "dovetail_outbox" : "dovetail_mailbox";
}

const std::string_view kSelectEpoch = "SELECT epoch FROM dovetail_relay WHERE relay = ?1";

const std::string_view kUpdateProgress =
    "UPDATE dovetail_relay SET passed_seq = ?3, delivered_total = delivered_total + ?4 - ?5 - ?7, "
    "parked_total = parked_total + ?5, skipped_total = skipped_total + ?7, updated_at = ?6, "
    "previous_at = CASE WHEN abs(?6 - sample_at) >= 5000000 THEN sample_at ELSE previous_at END, "
    "previous_total = CASE WHEN abs(?6 - sample_at) >= 5000000 THEN sample_total "
    "ELSE previous_total END, "
    "sample_total = CASE WHEN abs(?6 - sample_at) >= 5000000 THEN delivered_total + parked_total - "
    "replayed_total "
    "ELSE sample_total END, "
    "sample_at = CASE WHEN abs(?6 - sample_at) >= 5000000 THEN ?6 ELSE sample_at END "
    "WHERE relay = ?1 AND (epoch = ?2 OR ?2 = -1)";

std::string stored_topics(const std::vector<std::string>& topics) {
  std::string text;
  for (const std::string& topic : topics) text += "\n" + topic + "\n";
  return text;
}

Status ensure_reader(Database& database, const Reader& reader) {
  if (reader.name.empty() || reader.name.size() > 255)
    return fail(Errc::rejected, "the name of a relay has 1 to 255 bytes; check its settings");
  const std::string topics = stored_topics(reader.topics);
  Result<Statement> select = database.prepare(
      "SELECT source, topics, target, filter FROM dovetail_relay WHERE relay = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, reader.name).step();
  if (!row) return fail(row.error());
  if (*row && select->bytes(0) != to_string(reader.source))
    return fail(Errc::rejected, "\"" + reader.name + "\" reads the " +
                                    std::string(select->bytes(0)) + " of this file, not the " +
                                    std::string(to_string(reader.source)) +
                                    "; choose another name for one of them");
  const std::string bound(*row ? select->bytes(2) : std::string_view());
  if (!bound.empty() && !reader.target.empty() && bound != reader.target)
    return fail(other_target(reader.name, bound, reader.target));
  const bool up_to_date = *row && select->bytes(1) == topics && select->bytes(3) == reader.filter &&
                          (reader.target.empty() || bound == reader.target);
  select->reset();
  if (up_to_date) return {};
  // With two first starts and different targets, one is written; the other fails when it takes the
  // lease.
  const std::string passed =
      reader.starts_now && reader.source != SourceKind::broker
          ? "(SELECT coalesce(max(seq), 0) FROM " + std::string(table_of(reader.source)) + ")"
          : "0";
  Result<Statement> upsert = database.prepare(
      "INSERT INTO dovetail_relay (relay, source, topics, target, filter, passed_seq) VALUES "
      "(?1, ?2, ?3, ?4, ?5, " +
      passed +
      ") "
      "ON CONFLICT (relay) DO UPDATE SET topics = excluded.topics, filter = excluded.filter, "
      "target = CASE WHEN target = '' "
      "THEN excluded.target ELSE target END");
  if (!upsert) return fail(upsert.error());
  return upsert->bind_text(1, reader.name)
      .bind_text(2, to_string(reader.source))
      .bind_text(3, topics)
      .bind_text(4, reader.target)
      .bind_text(5, reader.filter)
      .run();
}

Status check_epoch(Statement& select_epoch, const Reader& reader) {
  if (reader.epoch == kUnfenced) return {};
  const Result<bool> row = select_epoch.bind_text(1, reader.name).step();
  if (!row) return fail(row.error());
  const bool current = *row && select_epoch.integer(0) == reader.epoch;
  select_epoch.reset();
  if (current) return {};
  return fail(Errc::stopped, "another process took over the relay \"" + reader.name +
                                 "\"; check that only one process runs it");
}

}  // namespace dovetail::sqlite
