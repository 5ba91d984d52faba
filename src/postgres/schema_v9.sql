-- Version 9: what relays say about themselves.

UPDATE dovetail.schema_version SET version = 9;

-- Replays and limits.

-- How often an operator had a parked event delivered once more: a broker that drops what it has seen before is told.
-- Only an operator makes `waiting` of `parked`, whichever way.
ALTER TABLE dovetail.parked ADD COLUMN replays int NOT NULL DEFAULT 0;
CREATE FUNCTION dovetail.count_replay() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.replays := OLD.replays + 1;
  RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION dovetail.count_replay() FROM PUBLIC;
CREATE TRIGGER count_replay BEFORE UPDATE OF state ON dovetail.parked FOR EACH ROW
  WHEN (OLD.state = 'parked' AND NEW.state = 'waiting') EXECUTE FUNCTION dovetail.count_replay();

-- What every broker takes as it comes, with headers and attributes. A limit that somebody chose stays.
ALTER TABLE dovetail.outbox_limit ALTER COLUMN payload_bytes_max SET DEFAULT 1024000;
UPDATE dovetail.outbox_limit SET payload_bytes_max = 1024000 WHERE payload_bytes_max = 1048576;
