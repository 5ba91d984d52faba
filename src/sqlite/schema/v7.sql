-- Version 7 of dovetail's tables in a SQLite file: what relays say about themselves.

-- Events that were delivered out of parking. What was delivered in all is settled_total - parked_total + replayed_total.
ALTER TABLE dovetail_reader ADD COLUMN replayed_total INTEGER NOT NULL DEFAULT 0;
UPDATE dovetail_reader SET replayed_total = (
  SELECT count(*) FROM dovetail_parked AS p WHERE p.reader = dovetail_reader.name AND p.state = 'delivered');

-- Where the reader's events go, or come from where it reads a broker, without secrets. It is written at the first start,
-- and a start with another one is refused. Empty: not known yet.
ALTER TABLE dovetail_reader ADD COLUMN target TEXT NOT NULL DEFAULT '';

-- What each reader does now, as its process last said it: for people. True as long as that process holds the lease;
-- without a lease (epoch -1, or one that has run out) until `expires`, which counts in boot time beside the id of the
-- boot. The process is what stands before the '#' of the owner.
CREATE TABLE dovetail_relay_state (
  name       TEXT PRIMARY KEY NOT NULL,
  epoch      INTEGER NOT NULL,
  owner      TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('standby', 'delivering', 'backing_off', 'halted')),
  since      INTEGER NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  next_try   INTEGER NOT NULL DEFAULT 0,   -- 0: there is nothing to try
  updated_at INTEGER NOT NULL,
  expires    INTEGER NOT NULL,
  boot       TEXT NOT NULL
) WITHOUT ROWID;

-- What operators did to relays and to parked events stands there too.
ALTER TABLE dovetail_audit ADD COLUMN reader TEXT NOT NULL DEFAULT '';
ALTER TABLE dovetail_audit ADD COLUMN events INTEGER NOT NULL DEFAULT 0;

UPDATE dovetail_schema SET version = 7;

-- How often an operator had a parked event delivered once more: a broker that drops what it has seen before is told.
-- Only an operator makes `waiting` of `parked`.
ALTER TABLE dovetail_parked ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER dovetail_count_replay AFTER UPDATE OF state ON dovetail_parked
WHEN OLD.state = 'parked' AND NEW.state = 'waiting'
BEGIN
  UPDATE dovetail_parked SET replays = OLD.replays + 1 WHERE number = NEW.number;
END;
