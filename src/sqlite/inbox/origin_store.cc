#include "sqlite/inbox/origin_store.h"

#include <utility>

#include "host/host.h"
#include "sqlite/lane/reader_session.h"

namespace dovetail::sqlite {

namespace {

const OriginStatements& origin_statements() {
  static const OriginStatements statements = {
      .last_parked =
          "SELECT coalesce(max(position), 0) FROM dovetail_parked INDEXED BY dovetail_parked_key "
          "WHERE relay = $1 AND finished_at = 0",
      .count =
          "UPDATE dovetail_relay SET delivered_total = delivered_total + $4 - $5 - $6, "
          "parked_total "
          "= parked_total + $5, skipped_total = skipped_total + $6, " +
          sampled_at(":now") + "WHERE relay = $1 AND (epoch = $3 OR $3 = -1)"};
  return statements;
}

}  // namespace

BrokerProgress::BrokerProgress(Reader& reader, Clock& clock)
    : OriginProgress(
          std::make_unique<ReaderSession>(reader, Durability::ordered, clock, std::string()),
          origin_statements(), lane_of(reader)) {}

Status BrokerProgress::open() {
  disconnect();
  return OriginProgress::open();
}

OriginParts::OriginParts(std::string path, std::string name, std::string target,
                         Duration lease_term, Clock& clock)
    : reader_{.path = std::move(path),
              .name = std::move(name),
              .source = SourceKind::broker,
              .target = std::move(target)},
      progress_(reader_, clock),
      parking_(reader_, clock),
      lease_(reader_, clock, process_label(), boot_id(), lease_term),
      recorder_(clock, state_writer(reader_, clock)) {}

}  // namespace dovetail::sqlite
