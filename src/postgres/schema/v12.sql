-- Version 12 of dovetail's tables in a PostgreSQL database: relays note what they delivered. Programs of version 11 work on.

-- A relay adds one row when it writes its progress, for all events that it delivered since the last one: seq from first_seq
-- to last_seq, of keys in these buckets; of its other events, and of other transactions, some lie between. `places`: where a
-- broker put them, one line for each partition with topic, partition, first offset, last offset and number of events, between
-- tabs. A row is deleted with the last event of the outbox that it can speak of.
CREATE TABLE dovetail.receipt (
  relay        text COLLATE "C" NOT NULL,
  at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner        text NOT NULL,
  first_bucket int NOT NULL,
  last_bucket  int NOT NULL,
  first_seq    bigint NOT NULL,
  last_seq     bigint NOT NULL,
  events       bigint NOT NULL,
  places       text NOT NULL
);
CREATE INDEX receipt_seq ON dovetail.receipt (relay, last_seq);

-- The receipts of a relay get its new name, and go when it is gone.
CREATE FUNCTION dovetail.follow_relay() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    UPDATE dovetail.receipt AS t SET relay = NEW.relay WHERE t.relay = OLD.relay;
  ELSIF NOT EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = OLD.relay) THEN
    DELETE FROM dovetail.receipt AS t WHERE t.relay = OLD.relay;
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION dovetail.follow_relay() FROM PUBLIC;
CREATE TRIGGER receipts_follow AFTER DELETE OR UPDATE OF relay ON dovetail.relay_lane
  FOR EACH ROW EXECUTE FUNCTION dovetail.follow_relay();

-- What was decided about one event. A subject may be longer than a b-tree takes.
CREATE INDEX audit_subject ON dovetail.audit USING hash (subject);

UPDATE dovetail.schema_version SET version = 12;
