-- Version 6 of dovetail's tables in a SQLite file: what the inbox remembers of an event.

-- `digest` tells two events with one id apart: the first 8 bytes of the payload's SHA-256. Null: nobody knows it, and every
-- payload fits. `available_at` is when the event could first have been applied, where its id does not say so.
ALTER TABLE dovetail_inbox ADD COLUMN digest INTEGER;
ALTER TABLE dovetail_inbox ADD COLUMN available_at INTEGER;
-- A claim that is completed becomes a row of the inbox.
ALTER TABLE dovetail_claim ADD COLUMN digest INTEGER;
ALTER TABLE dovetail_claim ADD COLUMN available_at INTEGER;

-- No row was ever deleted of an event that could first have been applied later than this. 0: none was deleted.
ALTER TABLE dovetail_consumer ADD COLUMN forgotten_until INTEGER NOT NULL DEFAULT 0;
UPDATE dovetail_consumer SET forgotten_until = (SELECT forgotten_before FROM dovetail_inbox_state)
WHERE created_at < (SELECT forgotten_before FROM dovetail_inbox_state);
DROP TABLE dovetail_inbox_state;

-- Events that a consumer is known not to have applied, written down while that could be known, or by an operator who has
-- looked: they are applied whatever their age. A row may stay when its event was applied, and goes at the latest with
-- the inbox row of the event.
CREATE TABLE dovetail_unapplied (
  consumer_id INTEGER NOT NULL,
  event_id    BLOB NOT NULL CHECK (length(event_id) = 16),
  since       INTEGER NOT NULL,
  by_operator INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (consumer_id, event_id)
) WITHOUT ROWID;

-- One moment by two clocks: the wall's, and that of the machine since it was started. `doubted`: since when the two do not
-- fit the moment before.
CREATE TABLE dovetail_clock_mark (
  boot              TEXT PRIMARY KEY,
  wall              INTEGER,   -- null: it was never trusted since the boot
  boot_time         INTEGER,
  doubted_wall      INTEGER,
  doubted_boot_time INTEGER
) WITHOUT ROWID;

-- What operators did to the inbox, and why.
CREATE TABLE dovetail_audit (
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  who     TEXT NOT NULL,
  what    TEXT NOT NULL,
  subject TEXT NOT NULL,
  reason  TEXT NOT NULL
);

UPDATE dovetail_schema SET version = 6;
