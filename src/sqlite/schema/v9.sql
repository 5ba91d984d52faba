-- Version 9 of dovetail's tables in a SQLite file: operators steer relays.

-- What an operator ordered for a relay. '': nothing. 'paused': nobody runs it. 'draining': what is in flight or waits for
-- its next try is delivered, and nothing new is read. 'drained': that has ended, and nobody runs it.
ALTER TABLE dovetail_relay ADD COLUMN hold TEXT NOT NULL DEFAULT ''
  CHECK (hold IN ('', 'paused', 'draining', 'drained'));
ALTER TABLE dovetail_relay ADD COLUMN hold_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dovetail_relay ADD COLUMN hold_by TEXT NOT NULL DEFAULT '';
ALTER TABLE dovetail_relay ADD COLUMN hold_reason TEXT NOT NULL DEFAULT '';
-- Events that the relay passed without delivering them: a filter left them out, or an operator moved it beyond them.
ALTER TABLE dovetail_relay ADD COLUMN skipped_total INTEGER NOT NULL DEFAULT 0;

-- What the relay carries, by its configuration: lists of patterns under topics, types, aggregate_types, and under headers by
-- name, as JSON. '': everything.
ALTER TABLE dovetail_relay ADD COLUMN filter TEXT NOT NULL DEFAULT '';

-- What an operator moved a relay beyond: from_seq < seq <= to_seq.
CREATE TABLE dovetail_relay_skip (
  relay    TEXT NOT NULL,
  from_seq INTEGER NOT NULL,
  to_seq   INTEGER NOT NULL
);
CREATE INDEX dovetail_relay_skip_relay ON dovetail_relay_skip (relay, from_seq);

-- For people: what became of each event of the outbox, as each relay sees it. What its filter leaves out now, or an operator
-- moved it beyond, is skipped.
DROP VIEW dovetail_events;
CREATE VIEW dovetail_events AS
SELECT o.seq,
       lower(substr(hex(o.id), 1, 8) || '-' || substr(hex(o.id), 9, 4) || '-' || substr(hex(o.id), 13, 4) || '-' ||
             substr(hex(o.id), 17, 4) || '-' || substr(hex(o.id), 21, 12)) AS id,
       r.relay,
       CASE WHEN p.state IS NOT NULL THEN p.state
            WHEN r.relay IS NULL OR o.seq > r.passed_seq THEN 'pending'
            WHEN EXISTS (SELECT 1 FROM dovetail_relay_skip AS k
                         WHERE k.relay = r.relay AND o.seq > k.from_seq AND o.seq <= k.to_seq) THEN 'skipped'
            WHEN r.filter <> '' AND EXISTS (
              SELECT 1 FROM json_each(r.filter) AS list
              WHERE list.key <> 'headers' AND NOT EXISTS (
                SELECT 1 FROM (SELECT CASE list.key WHEN 'topics' THEN o.topic WHEN 'types' THEN o.type
                                      ELSE o.aggregate_type END AS value) AS field, json_each(list.value) AS one
                WHERE field.value = one.value OR (substr(one.value, -1) = '*'
                  AND substr(field.value, 1, length(one.value) - 1) = substr(one.value, 1, length(one.value) - 1))))
              THEN 'skipped'
            WHEN r.filter <> '' AND EXISTS (
              SELECT 1 FROM json_each(r.filter, '$.headers') AS list
              WHERE NOT EXISTS (
                SELECT 1 FROM json_each(CASE WHEN json_valid(o.headers) THEN o.headers ELSE '{}' END) AS field,
                              json_each(list.value) AS one
                WHERE field.key = list.key AND (field.value = one.value OR (substr(one.value, -1) = '*'
                  AND substr(field.value, 1, length(one.value) - 1) = substr(one.value, 1, length(one.value) - 1)))))
              THEN 'skipped'
            ELSE 'delivered' END AS state,
       o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type,
       length(o.payload) AS payload_bytes, o.aggregate_version,
       strftime('%Y-%m-%dT%H:%M:%fZ', o.created_at / 1000000.0, 'unixepoch') AS created_at
FROM dovetail_outbox AS o
LEFT JOIN dovetail_relay AS r
  ON r.source = 'outbox'
 AND (r.topics = '' OR instr(r.topics, char(10) || o.topic || char(10)) > 0)
LEFT JOIN dovetail_parked AS p ON p.relay = r.relay AND p.id = o.id;

UPDATE dovetail_schema SET version = 9;
