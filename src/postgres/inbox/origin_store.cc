#include "postgres/inbox/origin_store.h"

#include <utility>

#include "host/host.h"
#include "postgres/lane/lane_session.h"
#include "postgres/lane/rate_samples.h"
#include "postgres/lane/relay_state.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

const OriginStatements& origin_statements() {
  static const OriginStatements statements = {
      .last_parked = std::string(kLastParked),
      .count =
          "UPDATE dovetail.relay_lane SET delivered_total = delivered_total + $4 - $5 - $6, "
          "parked_total = parked_total + $5, skipped_total = skipped_total + $6, " +
          kSampled +
          "WHERE relay = $1 AND lane = $2 AND (epoch = $3 OR $3 = -1) "
          // The setting ends with this transaction.
          "RETURNING set_config('synchronous_commit', 'off', true)"};
  return statements;
}

}  // namespace

Reader broker_reader(std::string conninfo, std::string name, std::string target) {
  Reader reader;
  reader.conninfo = std::move(conninfo);
  reader.relay = std::move(name);
  reader.source = SourceKind::broker;
  reader.target = std::move(target);
  return reader;
}

BrokerProgress::BrokerProgress(Reader& reader)
    : OriginProgress(std::make_unique<LaneSession>(reader), origin_statements(), lane_of(reader)) {}

OriginParts::OriginParts(std::string conninfo, std::string name, std::string target,
                         Duration lease_term, Clock& clock)
    : reader_(broker_reader(std::move(conninfo), std::move(name), std::move(target))),
      progress_(reader_),
      parking_(reader_),
      lease_(reader_, clock, process_label(), lease_term),
      recorder_(clock,
                [name = LaneName{reader_.relay, 0, 1}, conninfo = reader_.conninfo,
                 &clock](const SpokenState& spoken) -> Status {
                  Result<Connection> opened = Connection::open(conninfo);
                  if (!opened) return fail(opened.error());
                  DOVETAIL_TRY(check_schema(*opened));
                  return write_state(*opened, name, process_label(), spoken, clock.now());
                }) {
  reader_.call_max = call_max_of(lease_term);
}

}  // namespace dovetail::postgres
