-- Version 10 of dovetail's tables in a SQLite file: relays note what they delivered.

-- A relay adds one row when it writes its progress, for all events that it delivered since the last one: seq from first_seq
-- to last_seq. `places`: where a broker put them, one line for each partition with topic, partition, first offset, last
-- offset and number of events, between tabs. A row is deleted with the last event that it can speak of.
CREATE TABLE dovetail_receipt (
  relay     TEXT NOT NULL,
  at        INTEGER NOT NULL,
  owner     TEXT NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq  INTEGER NOT NULL,
  events    INTEGER NOT NULL,
  places    TEXT NOT NULL
);
CREATE INDEX dovetail_receipt_seq ON dovetail_receipt (relay, last_seq);

-- The receipts of a relay get its new name, and go when it is gone.
CREATE TRIGGER dovetail_receipt_renamed AFTER UPDATE OF relay ON dovetail_relay BEGIN
  UPDATE dovetail_receipt SET relay = NEW.relay WHERE relay = OLD.relay;
END;
CREATE TRIGGER dovetail_receipt_forgotten AFTER DELETE ON dovetail_relay BEGIN
  DELETE FROM dovetail_receipt WHERE relay = OLD.relay;
END;

-- What was decided about one event.
CREATE INDEX dovetail_audit_subject ON dovetail_audit (subject);

UPDATE dovetail_schema SET version = 10;
