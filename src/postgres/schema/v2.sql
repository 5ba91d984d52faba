-- Version 2 of dovetail's tables in a PostgreSQL database: the inbox.

-- One row for each consumer; a handler with a name of its own counts as one, "consumer.handler".
CREATE TABLE dovetail.consumer (
  id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 255),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each connection that applies events of a consumer, so that none waits for another's row.
CREATE TABLE dovetail.consumer_lane (
  consumer_id int NOT NULL,
  lane        int NOT NULL,
  clean       boolean NOT NULL DEFAULT true,   -- false while a session runs, and after one that died
  applied     bigint NOT NULL DEFAULT 0,
  duplicates  bigint NOT NULL DEFAULT 0,
  superseded  bigint NOT NULL DEFAULT 0,
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer_id, lane)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- One row for each event that a consumer has applied. Rows are never changed; whole partitions are dropped.
CREATE TABLE dovetail.inbox (
  event_id    uuid NOT NULL,
  consumer_id int NOT NULL,
  applied_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, consumer_id)
) PARTITION BY RANGE (event_id);
-- Takes ids that are not of version 7, and times for which no partition was made. Old rows are deleted one by one.
CREATE TABLE dovetail.inbox_default PARTITION OF dovetail.inbox DEFAULT;
CREATE INDEX inbox_default_applied ON dovetail.inbox_default (applied_at);

-- What the inbox does not remember any more: an event that is older than this, by its id of version 7 or else by its
-- created_at, may have been applied. It is raised in the transaction that deletes rows, and no row is deleted that was
-- applied later than this: of a consumer that was created later, nothing is forgotten. Who inserts a row reads it in a
-- later statement of the same transaction (read committed), because the insert may have waited for that deletion.
CREATE TABLE dovetail.inbox_state (
  only_row         int PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
  forgotten_before timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO dovetail.inbox_state DEFAULT VALUES;

-- The time in an id of version 7; null for any other.
CREATE FUNCTION dovetail.time_of(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN substr(id::text, 15, 1) = '7' AND substr(id::text, 20, 1) IN ('8', '9', 'a', 'b')
         THEN 'epoch'::timestamptz + ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::int8 * interval '1 millisecond' END
$$;
REVOKE ALL ON FUNCTION dovetail.time_of(uuid) FROM PUBLIC;

-- Attempts at events that have failed, counted before each try.
CREATE TABLE dovetail.attempt (
  event_id    uuid NOT NULL,
  consumer_id int NOT NULL,
  attempts    int NOT NULL,
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_id, consumer_id)
);

-- The last version of each aggregate that a consumer with a version guard has applied.
CREATE TABLE dovetail.applied_version (
  consumer_id    int NOT NULL,
  aggregate_type text COLLATE "C" NOT NULL,
  aggregate_id   text COLLATE "C" NOT NULL,
  version        bigint NOT NULL,
  PRIMARY KEY (consumer_id, aggregate_type, aggregate_id)
) WITH (fillfactor = 70);

-- A row stands here while a handler has the connection of its consumer in its own hands: it must not commit then, because
-- events of the same transaction that are still to be handled would count as applied.
CREATE UNLOGGED TABLE dovetail.commit_guard (
  transaction xid8 PRIMARY KEY DEFAULT pg_current_xact_id()
);
CREATE FUNCTION dovetail.refuse_commit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM dovetail.commit_guard AS guard WHERE guard.transaction = NEW.transaction) THEN
    RAISE EXCEPTION 'this transaction is not the handler''s to commit'
      USING ERRCODE = 'invalid_transaction_termination',
            HINT = 'check the handler for COMMIT, and that SET CONSTRAINTS names constraints of its own only';
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION dovetail.refuse_commit() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON dovetail.commit_guard DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION dovetail.refuse_commit();

-- A reader of a broker: its lease, its counts and its parked events are here, its progress is the broker's. It counts
-- as `mapped`, because it does not read the outbox either.
ALTER TABLE dovetail.reader ADD COLUMN outside boolean NOT NULL DEFAULT false;

-- An event, as SQL functions that handle events get it.
CREATE TYPE dovetail.event AS (
  id                uuid,
  topic             text,
  aggregate_type    text,
  aggregate_id      text,
  type              text,
  content_type      text,
  headers           jsonb,
  payload           bytea,
  aggregate_version bigint,
  created_at        timestamptz
);
-- Its payload, read as UTF-8 and as JSON.
CREATE FUNCTION dovetail.text(event dovetail.event) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.convert_from((event).payload, 'UTF8')
$$;
CREATE FUNCTION dovetail.json(event dovetail.event) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.convert_from((event).payload, 'UTF8')::jsonb
$$;

UPDATE dovetail.schema_version SET version = 2;
