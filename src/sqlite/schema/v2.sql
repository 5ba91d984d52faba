-- Version 2 of dovetail's tables in a SQLite file: a reader may also read outside, from a broker. Its row then holds
-- its lease and its counts, and its parked events live here; `settled` means nothing to it.
-- A CHECK cannot be altered, so the table is made anew. By the legacy rule, renaming it looks at no view: views of
-- others may read it, too.
PRAGMA legacy_alter_table = ON;
CREATE TABLE dovetail_reader_2 (
  name           TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  stream         TEXT NOT NULL CHECK (stream IN ('outbox', 'mailbox', 'outside')),
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
INSERT INTO dovetail_reader_2 (
  name, stream, topics, settled, owner, epoch, lease_expires, lease_boot, settled_total, parked_total,
  sample_at, sample_total, previous_at, previous_total, updated_at)
SELECT
  name, stream, topics, settled, owner, epoch, lease_expires, lease_boot, settled_total, parked_total,
  sample_at, sample_total, previous_at, previous_total, updated_at
FROM dovetail_reader;
DROP TABLE dovetail_reader;
ALTER TABLE dovetail_reader_2 RENAME TO dovetail_reader;
PRAGMA legacy_alter_table = OFF;
UPDATE dovetail_schema SET version = 2;
