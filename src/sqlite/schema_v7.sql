-- Version 7 of dovetail's tables in a SQLite file: what relays say about themselves.

UPDATE dovetail_schema SET version = 7;

-- How often an operator had a parked event delivered once more: a broker that drops what it has seen before is told.
-- Only an operator makes `waiting` of `parked`.
ALTER TABLE dovetail_parked ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER dovetail_count_replay AFTER UPDATE OF state ON dovetail_parked
WHEN OLD.state = 'parked' AND NEW.state = 'waiting'
BEGIN
  UPDATE dovetail_parked SET replays = OLD.replays + 1 WHERE number = NEW.number;
END;
