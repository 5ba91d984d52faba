-- Version 5 of dovetail's tables in a PostgreSQL database: reading the server's log.

-- What is streamed out of the log: inserts alone, whatever partition they fall into.
CREATE PUBLICATION dovetail_outbox FOR TABLE dovetail.outbox
  WITH (publish = 'insert', publish_via_partition_root = true);

-- How a lane reads now, for people; and the slot that stays between its starts, if it has one. The server is told to
-- forget the log only up to a position that stands here: a slot that is further was made by somebody else, and does not
-- hold what we miss.
ALTER TABLE dovetail.reader
  ADD COLUMN streams       boolean NOT NULL DEFAULT false,
  ADD COLUMN streams_since timestamptz NOT NULL DEFAULT clock_timestamp(),
  ADD COLUMN streams_why   text NOT NULL DEFAULT '',
  ADD COLUMN slot          text NOT NULL DEFAULT '',
  ADD COLUMN slot_history  text NOT NULL DEFAULT '',       -- the timeline on which it was used
  ADD COLUMN slot_reported pg_lsn NOT NULL DEFAULT '0/0';

UPDATE dovetail.schema_version SET version = 5;
