// What is in the tables of dovetail: partitions, limits, parked events, queues, inboxes.
#include "postgres/doctor/checks.h"
#include "postgres/lane/lease.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;

// The end of the last partition that begins with the present, in microseconds from now.
const Probe kPartitions{
    R"(WITH bounds AS (
         SELECT (regexp_match(pg_catalog.pg_get_expr(c.relpartbound, c.oid),
                              'TO \(''([0-9a-f]{8})-([0-9a-f]{4})'))::text[] AS upto
         FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'dovetail.outbox'::pg_catalog.regclass)
       SELECT coalesce(max(('x' || upto[1] || upto[2])::bit(48)::int8 * 1000
                           - (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::int8),
                       0)::int8 AS ahead,
              count(upto) AS partitions
       FROM bounds)",
    {{Severity::warning, "partitions-ahead",
      [](F f) { return f.number("ahead") < f.number("ahead_min") && f.number("partitions") == 0; },
      "the outbox has no partitions: all rows are in the default partition, where old events are "
      "deleted one by one",
      "run 'dovetail prune' as the owner of the schema, regularly, or let the relay do so"},
     {Severity::warning, "partitions-ahead",
      [](F f) { return f.number("ahead") < f.number("ahead_min") && f.number("partitions") > 0; },
      "the outbox has partitions for another {ahead:age} only; later events go to the default "
      "partition, where old events are deleted one by one",
      "run 'dovetail prune' as the owner of the schema, regularly, or let the relay do so"}}};

// Publishers in SQL are bound by the table, the others by the config.
const Probe kLimit{
    "SELECT coalesce(payload_bytes_max, 0) AS allowed FROM dovetail.outbox_limit",
    {{Severity::warning, "payload-limit",
      [](F f) { return f.number("payload_bytes_max") > 0 && f.number("allowed") <= 0; },
      "SQL may publish payloads of any size, but payload_max of this store is "
      "{payload_bytes_max}, and doctor compares brokers with payload_max",
      "set payload_max of the store to the limit in dovetail.outbox_limit"},
     {Severity::warning, "payload-limit",
      [](F f) {
        return f.number("payload_bytes_max") > 0 &&
               f.number("allowed") > f.number("payload_bytes_max");
      },
      "SQL may publish payloads of {allowed} bytes, but payload_max of this store is "
      "{payload_bytes_max}, and doctor compares brokers with payload_max",
      "set payload_max of the store to the limit in dovetail.outbox_limit"}}};

const Probe kParked{
    R"(SELECT count(*) FILTER (WHERE state = 'parked') AS parked, count(*) AS all,
              count(*) FILTER (WHERE NOT at_head AND NOT EXISTS (
                SELECT 1 FROM dovetail.parked h
                WHERE h.relay = p.relay AND h.aggregate_type = p.aggregate_type
                  AND h.aggregate_id = p.aggregate_id AND h.at_head)) AS stuck
       FROM dovetail.parked p WHERE finished_at IS NULL)",
    {{Severity::warning, "parked", [](F f) { return f.number("parked") > 0; },
      "parked events, which wait for an operator: {parked}; with the events behind them {all}",
      "list them with 'dovetail parked list', then replay or discard them"},
     {Severity::error, "parked-without-head", [](F f) { return f.number("stuck") > 0; },
      "{stuck} parked events wait behind nothing: they were changed by hand",
      "run SELECT dovetail.refresh_heads(relay, array_agg(aggregate_type), "
      "array_agg(aggregate_id)) FROM dovetail.parked WHERE finished_at IS NULL GROUP BY relay"}}};

const Probe kQueues{
    R"(SELECT c.name, count(*) FILTER (WHERE q.parked_number IS NOT NULL) AS parked,
              count(*) FILTER (WHERE q.is_ready) AS ready,
              coalesce(EXTRACT(epoch FROM clock_timestamp() - min(q.due)
                                            FILTER (WHERE q.is_ready)) * 1000000, 0)::int8 AS late,
              count(*) FILTER (WHERE q.waiting AND NOT EXISTS (
                SELECT 1 FROM dovetail.queue AS p
                WHERE p.consumer_id = q.consumer_id AND p.key_hash = q.key_hash
                  AND p.number < q.number)) AS stuck
       FROM (SELECT a.*, NOT a.waiting AND a.parked_number IS NULL
                         AND a.due <= clock_timestamp() AS is_ready
             FROM dovetail.queue AS a) AS q
       JOIN dovetail.consumer AS c ON c.id = q.consumer_id
       GROUP BY c.name ORDER BY c.name)",
    {{Severity::warning, "queue-parked", [](F f) { return f.number("parked") > 0; },
      "the queue of \"{name}\" has {parked} parked events; their keys wait for an operator",
      "list them with 'dovetail parked list', then replay or discard them"},
     {Severity::warning, "queue-backlog",
      [](F f) { return f.number("late") > f.number("lag_max"); },
      "the queue of \"{name}\" has {ready} events ready for a worker, the oldest for {late:age}",
      "check that workers call dovetail.receive() with this name, and start more workers if they "
      "are busy"},
     {Severity::error, "queue-stuck", [](F f) { return f.number("stuck") > 0; },
      "the queue of \"{name}\" has {stuck} events that wait behind no event: rows were changed "
      "manually",
      "run UPDATE dovetail.queue SET waiting = false WHERE waiting, which is safe at any time"}}};

// A clock was wrong when rows were deleted.
const Probe kForgetting{
    R"(SELECT c.name, f.until::text AS until
       FROM dovetail.forgetting f JOIN dovetail.consumer c ON c.id = f.consumer_id
       WHERE f.until > pg_catalog.clock_timestamp() + interval '1 hour' ORDER BY c.name)",
    {{Severity::error, "inbox-forgets-new-events", nullptr,
      "the consumer \"{name}\" parks every event up to {until} as possibly forgotten, and that "
      "time is in the future: a clock was wrong when old rows were deleted",
      "find the time of that deletion and run 'dovetail inbox remember --since' with it"}}};

// Where its relay is in this database, a consumer that nobody runs is known as such.
const std::string kDiedSql =
    R"(SELECT c.name FROM dovetail.consumer c
       WHERE EXISTS (SELECT 1 FROM dovetail.consumer_session l
                     WHERE l.consumer_id = c.id AND NOT l.clean)
         AND EXISTS (SELECT 1 FROM dovetail.relay_lane r WHERE r.relay = c.name)
         AND NOT EXISTS (SELECT 1 FROM dovetail.relay_lane r WHERE r.relay = c.name AND )" +
    std::string(kIsHeld) + ") ORDER BY c.name";

const Probe kDied{
    kDiedSql,
    {{Severity::warning, "consumer-died", nullptr,
      "the last session of the consumer \"{name}\" did not end cleanly, perhaps because of a "
      "handler, and no process runs it now",
      "check its log and start it: it tries events one by one, finds the one that ends the "
      "process, and parks it"}}};

const Probe kInboxRows{
    R"(SELECT greatest(c.reltuples, 0)::int8 AS rows,
              (SELECT count(*) FROM pg_catalog.pg_inherits i
               WHERE i.inhparent = 'dovetail.inbox'::pg_catalog.regclass) AS partitions
       FROM pg_catalog.pg_class c
       WHERE c.oid = 'dovetail.inbox_default'::pg_catalog.regclass
         AND EXISTS (SELECT 1 FROM dovetail.consumer))",
    {{Severity::warning, "inbox-partitions", [](F f) { return f.number("partitions") < 2; },
      "the inbox has no partitions: all rows are in the default partition, where old rows are "
      "deleted one by one",
      "run 'dovetail prune' as the owner of the schema, regularly, or let 'dovetail run' do so"},
     {Severity::warning, "inbox-default",
      [](F f) { return f.number("rows") > f.number("default_rows_max"); },
      "the default partition of the inbox has about {rows} rows, which are deleted one by one: "
      "their event ids are not UUIDs of version 7, or their times have no partition",
      "use ids of version 7 in producers, or shorten retention.inbox"}}};

}  // namespace

const Part& tables_part() {
  static const Part part{"the outbox", {kPartitions, kLimit}};
  return part;
}

const std::vector<Part>& work_parts() {
  static const std::vector<Part> parts{{"the parked events", {kParked}},
                                       {"the queues", {kQueues}},
                                       {"the inbox", {kForgetting, kDied, kInboxRows}}};
  return parts;
}

}  // namespace dovetail::postgres
