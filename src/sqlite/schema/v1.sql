-- Version 1 of dovetail's tables in a SQLite file. Times are microseconds since 1970 (UTC).

CREATE TABLE dovetail_schema (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  version  INTEGER NOT NULL
);
INSERT INTO dovetail_schema (only_row, version) VALUES (1, 1);

-- What this service publishes. A plain INSERT from any language is a publish:
--   INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', '17', 'placed', '{}');
-- AUTOINCREMENT, because without it numbers come back after a prune and readers would skip new events.
CREATE TABLE dovetail_outbox (
  seq               INTEGER PRIMARY KEY AUTOINCREMENT,
  id                BLOB NOT NULL UNIQUE DEFAULT (randomblob(16))
                    CHECK (typeof(id) = 'blob' AND length(id) = 16),
  topic             TEXT NOT NULL DEFAULT '' CHECK (length(topic) <= 255),
  aggregate_type    TEXT NOT NULL CHECK (length(aggregate_type) BETWEEN 1 AND 255),
  aggregate_id      TEXT NOT NULL DEFAULT '' CHECK (length(aggregate_id) <= 1024),
  type              TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 255),
  content_type      TEXT NOT NULL DEFAULT 'application/json'
                    CHECK (length(content_type) BETWEEN 1 AND 255),
  headers           TEXT NOT NULL DEFAULT ''
                    CHECK (headers = '' OR CASE WHEN json_valid(headers) THEN json_type(headers) = 'object' ELSE 0 END),
  payload           BLOB NOT NULL CHECK (typeof(payload) IN ('blob', 'text') AND length(payload) > 0),
  aggregate_version INTEGER NOT NULL DEFAULT 0 CHECK (typeof(aggregate_version) = 'integer'),
  created_at        INTEGER NOT NULL
                    DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
                    CHECK (typeof(created_at) = 'integer')
);

-- What other services delivered to this one: unique by event id, so that a repeated delivery is harmless.
CREATE TABLE dovetail_mailbox (
  seq               INTEGER PRIMARY KEY AUTOINCREMENT,
  id                BLOB NOT NULL UNIQUE CHECK (typeof(id) = 'blob' AND length(id) = 16),
  topic             TEXT NOT NULL,
  aggregate_type    TEXT NOT NULL CHECK (length(aggregate_type) > 0),
  aggregate_id      TEXT NOT NULL,
  type              TEXT NOT NULL CHECK (length(type) > 0),
  content_type      TEXT NOT NULL,
  headers           TEXT NOT NULL,
  payload           BLOB NOT NULL CHECK (length(payload) > 0),
  aggregate_version INTEGER NOT NULL,
  created_at        INTEGER NOT NULL,
  received_at       INTEGER NOT NULL
);

-- One row for each reader of the outbox or the mailbox. `settled`: everything up to this number is delivered or parked.
-- The lease counts in boot time beside the id of the boot, so that steps of the wall clock do not touch it.
CREATE TABLE dovetail_reader (
  name           TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  stream         TEXT NOT NULL CHECK (stream IN ('outbox', 'mailbox')),
  topics         TEXT NOT NULL DEFAULT '',   -- a line break around each; '' for all
  settled        INTEGER NOT NULL DEFAULT 0,
  owner          TEXT NOT NULL DEFAULT '',
  epoch          INTEGER NOT NULL DEFAULT 0,
  lease_expires  INTEGER NOT NULL DEFAULT 0,
  lease_boot     TEXT NOT NULL DEFAULT '',
  settled_total  INTEGER NOT NULL DEFAULT 0,
  parked_total   INTEGER NOT NULL DEFAULT 0,
  sample_at      INTEGER NOT NULL DEFAULT 0,  -- two samples of settled_total, some seconds apart, give the rate
  sample_total   INTEGER NOT NULL DEFAULT 0,
  previous_at    INTEGER NOT NULL DEFAULT 0,
  previous_total INTEGER NOT NULL DEFAULT 0,
  updated_at     INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Events that a reader could not deliver, and what waits behind them; later their history. `at_head` is 1 for an
-- unfinished event with nothing unfinished before it on its key.
CREATE TABLE dovetail_parked (
  number            INTEGER PRIMARY KEY AUTOINCREMENT,
  reader            TEXT NOT NULL,
  id                BLOB NOT NULL,
  position          INTEGER NOT NULL,
  topic             TEXT NOT NULL,
  aggregate_type    TEXT NOT NULL,
  aggregate_id      TEXT NOT NULL,
  type              TEXT NOT NULL,
  content_type      TEXT NOT NULL,
  headers           TEXT NOT NULL,
  payload           BLOB NOT NULL,
  aggregate_version INTEGER NOT NULL,
  created_at        INTEGER NOT NULL,
  state             TEXT NOT NULL CHECK (state IN ('parked', 'waiting', 'delivered', 'discarded')),
  at_head           INTEGER NOT NULL DEFAULT 0,
  attempts          INTEGER NOT NULL,
  reason            TEXT NOT NULL,
  note              TEXT NOT NULL DEFAULT '',
  parked_at         INTEGER NOT NULL,
  retry_at          INTEGER NOT NULL,
  finished_at       INTEGER NOT NULL DEFAULT 0,   -- 0: unfinished
  UNIQUE (reader, id)
);
CREATE INDEX dovetail_parked_key
  ON dovetail_parked (reader, aggregate_type, aggregate_id, position) WHERE finished_at = 0;
CREATE INDEX dovetail_parked_head
  ON dovetail_parked (reader, aggregate_type, aggregate_id) WHERE at_head = 1;
CREATE INDEX dovetail_parked_due
  ON dovetail_parked (reader, retry_at) WHERE at_head = 1 AND state = 'waiting';
CREATE INDEX dovetail_parked_finished ON dovetail_parked (finished_at) WHERE finished_at > 0;

CREATE TABLE dovetail_consumer (
  id         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 255),
  applied    INTEGER NOT NULL DEFAULT 0,
  duplicates INTEGER NOT NULL DEFAULT 0,
  clean      INTEGER NOT NULL DEFAULT 1   -- 0 while a session runs, and after one that died
);

-- One row for each event that a consumer has applied.
CREATE TABLE dovetail_inbox (
  consumer_id INTEGER NOT NULL,
  event_id    BLOB NOT NULL CHECK (length(event_id) = 16),
  applied_at  INTEGER NOT NULL,
  PRIMARY KEY (consumer_id, event_id)
) WITHOUT ROWID;

-- Attempts at events that have failed, counted before each try.
CREATE TABLE dovetail_attempt (
  consumer_id INTEGER NOT NULL,
  event_id    BLOB NOT NULL,
  attempts    INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (consumer_id, event_id)
) WITHOUT ROWID;

-- For people: what became of each event of the outbox, as each reader sees it.
CREATE VIEW dovetail_events AS
SELECT o.seq,
       lower(substr(hex(o.id), 1, 8) || '-' || substr(hex(o.id), 9, 4) || '-' || substr(hex(o.id), 13, 4) || '-' ||
             substr(hex(o.id), 17, 4) || '-' || substr(hex(o.id), 21, 12)) AS id,
       r.name AS reader,
       CASE WHEN p.state IS NOT NULL THEN p.state
            WHEN o.seq <= r.settled THEN 'delivered'
            ELSE 'pending' END AS state,
       o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type,
       length(o.payload) AS payload_length, o.aggregate_version,
       strftime('%Y-%m-%dT%H:%M:%fZ', o.created_at / 1000000.0, 'unixepoch') AS created_at
FROM dovetail_outbox AS o
LEFT JOIN dovetail_reader AS r
  ON r.stream = 'outbox'
 AND (r.topics = '' OR instr(r.topics, char(10) || o.topic || char(10)) > 0)
LEFT JOIN dovetail_parked AS p ON p.reader = r.name AND p.id = o.id;
