-- Version 8 of dovetail's tables in a SQLite file: one word for one thing. docs/GLOSSARY.md has the words.

ALTER TABLE dovetail_parked RENAME COLUMN reader TO relay;
ALTER TABLE dovetail_relay_state RENAME COLUMN name TO relay;
ALTER TABLE dovetail_audit RENAME COLUMN reader TO relay;

-- One row for each relay and consumer. `source` is where it reads: the outbox, the mailbox, or a broker. Of a broker only
-- the lease, the counts and the parked events are here. Everything up to `passed_seq` is delivered or parked.
-- `delivered_total` counts what the receiver has confirmed, replayed events included. The lease counts in boot time beside
-- the id of the boot, so that steps of the wall clock do not touch it.
CREATE TABLE dovetail_relay (
  relay           TEXT PRIMARY KEY NOT NULL CHECK (length(relay) BETWEEN 1 AND 255),
  source          TEXT NOT NULL CHECK (source IN ('outbox', 'mailbox', 'broker')),
  topics          TEXT NOT NULL DEFAULT '',   -- a line break around each; '' for all
  target          TEXT NOT NULL DEFAULT '',   -- where its events go, or the broker that it reads; '': not known yet
  passed_seq      INTEGER NOT NULL DEFAULT 0,
  owner           TEXT NOT NULL DEFAULT '',
  epoch           INTEGER NOT NULL DEFAULT 0,
  lease_expires   INTEGER NOT NULL DEFAULT 0,
  lease_boot      TEXT NOT NULL DEFAULT '',
  delivered_total INTEGER NOT NULL DEFAULT 0,
  parked_total    INTEGER NOT NULL DEFAULT 0,
  replayed_total  INTEGER NOT NULL DEFAULT 0,
  sample_at       INTEGER NOT NULL DEFAULT 0,  -- two samples of what was passed, some seconds apart, give the rate
  sample_total    INTEGER NOT NULL DEFAULT 0,
  previous_at     INTEGER NOT NULL DEFAULT 0,
  previous_total  INTEGER NOT NULL DEFAULT 0,
  updated_at      INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO dovetail_relay (
  relay, source, topics, target, passed_seq, owner, epoch, lease_expires, lease_boot, delivered_total, parked_total,
  replayed_total, sample_at, sample_total, previous_at, previous_total, updated_at)
SELECT
  name, CASE stream WHEN 'outside' THEN 'broker' ELSE stream END, topics, target, settled, owner, epoch, lease_expires,
  lease_boot, max(0, settled_total - parked_total + replayed_total), parked_total, replayed_total, sample_at, sample_total,
  previous_at, previous_total, updated_at
FROM dovetail_reader;
DROP VIEW dovetail_events;
DROP TABLE dovetail_reader;

-- For people: what became of each event of the outbox, as each relay sees it.
CREATE VIEW dovetail_events AS
SELECT o.seq,
       lower(substr(hex(o.id), 1, 8) || '-' || substr(hex(o.id), 9, 4) || '-' || substr(hex(o.id), 13, 4) || '-' ||
             substr(hex(o.id), 17, 4) || '-' || substr(hex(o.id), 21, 12)) AS id,
       r.relay,
       CASE WHEN p.state IS NOT NULL THEN p.state
            WHEN o.seq <= r.passed_seq THEN 'delivered'
            ELSE 'pending' END AS state,
       o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type,
       length(o.payload) AS payload_bytes, o.aggregate_version,
       strftime('%Y-%m-%dT%H:%M:%fZ', o.created_at / 1000000.0, 'unixepoch') AS created_at
FROM dovetail_outbox AS o
LEFT JOIN dovetail_relay AS r
  ON r.source = 'outbox'
 AND (r.topics = '' OR instr(r.topics, char(10) || o.topic || char(10)) > 0)
LEFT JOIN dovetail_parked AS p ON p.relay = r.relay AND p.id = o.id;

UPDATE dovetail_schema SET version = 8;
