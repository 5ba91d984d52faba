-- Version 5 of dovetail's tables in a PostgreSQL database: reading the server's log, and applying events once more.

-- What is streamed out of the log: inserts alone, whatever partition they fall into.
-- One may be left of a schema that was dropped, which does not take it along.
DROP PUBLICATION IF EXISTS dovetail_outbox;
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

-- Events that leave no row: they stand in the server's log alone, where a relay with `emitted` finds them. Costs less than
-- publish(), and has its price: once the slot of that relay is lost, what it had not read yet is gone; nothing can be
-- replayed or looked up; and an id that comes twice goes out twice. The limit of the backlog is not looked at, because
-- nothing waits in the outbox. Needs PostgreSQL 14, and fails where nobody could ever read the message. Runs as the
-- owner, so that pg_logical_emit_message(), with which anybody can forge such events, may be taken from PUBLIC.
CREATE FUNCTION dovetail.emit_event(
  id uuid, topic text, aggregate_type text, aggregate_id text, type text, content_type text, headers text, payload bytea,
  aggregate_version bigint) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  -- A cast to these domains checks what the columns of the outbox check.
  topic_bytes          bytea := convert_to(topic::dovetail.topic, 'UTF8');
  aggregate_type_bytes bytea := convert_to(aggregate_type::dovetail.aggregate_type, 'UTF8');
  aggregate_id_bytes   bytea := convert_to(aggregate_id::dovetail.aggregate_id, 'UTF8');
  type_bytes           bytea := convert_to(type::dovetail.event_type, 'UTF8');
  content_type_bytes   bytea := convert_to(content_type::dovetail.content_type, 'UTF8');
  headers_bytes        bytea := convert_to(headers::dovetail.headers, 'UTF8');
BEGIN
  IF current_setting('wal_level') <> 'logical' OR current_setting('server_version_num')::int < 140000 THEN
    RAISE EXCEPTION 'this server cannot hand on what is emitted'
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'check that it is PostgreSQL 14 or newer with wal_level = logical, or use dovetail.publish()';
  END IF;
  -- pg_logical_emit_message() of something that is null writes nothing.
  IF topic IS NULL OR aggregate_type IS NULL OR aggregate_id IS NULL OR type IS NULL OR content_type IS NULL
     OR headers IS NULL OR payload IS NULL OR aggregate_version IS NULL THEN
    RAISE EXCEPTION 'a part of the event is null'
      USING ERRCODE = 'not_null_violation', HINT = 'check that each part but the id has a value';
  END IF;
  id := coalesce(id, dovetail.uuid7());
  PERFORM pg_logical_emit_message(true, 'dovetail',
    -- The number of this format; then sizes before each text. The payload comes last, so that it is copied once.
    '\x01'::bytea || uuid_send(id) || int8send(nextval('dovetail.outbox_seq')) || int8send(aggregate_version)
    || timestamptz_send(clock_timestamp())
    || int4send(octet_length(topic_bytes)) || topic_bytes
    || int4send(octet_length(aggregate_type_bytes)) || aggregate_type_bytes
    || int4send(octet_length(aggregate_id_bytes)) || aggregate_id_bytes
    || int4send(octet_length(type_bytes)) || type_bytes
    || int4send(octet_length(content_type_bytes)) || content_type_bytes
    || int4send(octet_length(headers_bytes)) || headers_bytes
    || payload::dovetail.payload);
  RETURN id;
END
$$;

-- As publish(), without a time to wait for.
CREATE FUNCTION dovetail.emit(
  aggregate_type text, aggregate_id text, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.emit_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                             coalesce(nullif(headers, '{}')::text, ''), payload, coalesce(aggregate_version, 0))
$$;

CREATE FUNCTION dovetail.emit(
  aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.emit_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                             coalesce(nullif(headers, '{}')::text, ''), pg_catalog.convert_to(payload::text, 'UTF8'),
                             coalesce(aggregate_version, 0))
$$;

CREATE FUNCTION dovetail.emit(
  aggregate_type text, aggregate_id text, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.emit_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                             coalesce(nullif(headers, '{}')::text, ''), pg_catalog.convert_to(payload, 'UTF8'),
                             coalesce(aggregate_version, 0))
$$;

REVOKE ALL ON FUNCTION
  dovetail.emit_event(uuid, text, text, text, text, text, text, bytea, bigint),
  dovetail.emit(text, text, text, bytea, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, jsonb, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, text, jsonb, text, uuid, bigint, text) FROM PUBLIC;

-- In the caller's transaction: waits for another that is claiming the same event. Rows are dropped in the transaction that
-- moves the line behind which nothing is remembered. A snapshot for a whole transaction may be older than that, and shows
-- neither; so there the line is locked, which fails, as such transactions do, when it was moved since.
CREATE OR REPLACE FUNCTION dovetail.claim(consumer text, id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
BEGIN
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    PERFORM FROM dovetail.inbox_state FOR SHARE;
  END IF;
  INSERT INTO dovetail.inbox (event_id, consumer_id) VALUES (id, of_consumer) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN 'duplicate';
  END IF;
  IF dovetail.is_forgotten(of_consumer, id, NULL) THEN
    PERFORM dovetail.raise_forgotten(consumer, id);
  END IF;
  RETURN 'first';
END
$$;

-- Part 2: an event that was applied is to be applied once more, because an operator says so. In two steps, since the
-- inbox and the outbox may be in two databases: the consumer forgets it, and then it is delivered again.

CREATE FUNCTION dovetail.check_reason(reason text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'this needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the event is to be applied once more';
  END IF;
  RETURN left(reason, 2000);
END
$$;

-- `consumer` with all of its handlers, or one of these: 'stock.ledger'. Returns of how many rows it was known by.
CREATE FUNCTION dovetail.forget_event(consumer text, id uuid, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  why       text := dovetail.check_reason(reason);
  numbers   int[] := ARRAY(SELECT c.id FROM dovetail.consumer AS c
                           WHERE c.name = consumer OR starts_with(c.name, consumer || '.'));
  forgotten bigint;
BEGIN
  DELETE FROM dovetail.inbox AS i WHERE i.event_id = forget_event.id AND i.consumer_id = ANY (numbers);
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  IF forgotten = 0 THEN
    RETURN 0;
  END IF;
  IF EXISTS (SELECT FROM unnest(numbers) AS n WHERE dovetail.is_forgotten(n, forget_event.id, NULL)) THEN
    PERFORM dovetail.raise_forgotten(consumer, forget_event.id);
  END IF;
  INSERT INTO dovetail.audit (what, relay, subject, events, reason)
  VALUES ('forget', consumer, forget_event.id::text, forgotten, why);
  RETURN forgotten;
END
$$;

-- Has the relay deliver an event of the outbox once more, by way of its parking. False: the outbox does not have it any
-- more, or never had.
CREATE FUNCTION dovetail.deliver_again(relay text, id uuid, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  one dovetail.outbox;
BEGIN
  IF NOT EXISTS (SELECT FROM dovetail.reader AS r WHERE r.relay = deliver_again.relay AND NOT r.mapped) THEN
    RAISE EXCEPTION 'no relay or consumer "%" reads this outbox', relay
      USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
  END IF;
  SELECT o.* INTO one FROM dovetail.outbox AS o WHERE o.id = deliver_again.id;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  -- It would overtake those of its key that are still to come.
  IF EXISTS (
    SELECT FROM dovetail.reader AS r
    WHERE r.relay = deliver_again.relay AND NOT pg_visible_in_snapshot(one.xid, r.prev)
      AND dovetail.slot(one.aggregate_type, one.aggregate_id, one.id)
        BETWEEN (256 * r.lane + r.lanes - 1) / r.lanes AND (256 * (r.lane + 1) + r.lanes - 1) / r.lanes - 1) THEN
    RAISE EXCEPTION 'the event % has not been delivered yet, so it comes by itself', id
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'check with `dovetail status` how far the relay is';
  END IF;
  INSERT INTO dovetail.parked AS p (
    relay, id, position, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version,
    created_at, state, at_head, attempts, reason, note, retry_at)
  VALUES (relay, one.id, one.seq, one.topic, one.aggregate_type, one.aggregate_id, one.type, one.content_type, one.headers,
          one.payload, one.aggregate_version, one.created_at, 'waiting', one.aggregate_id = '', 0, why,
          'delivery asked for', clock_timestamp())
  ON CONFLICT ON CONSTRAINT parked_relay_id_key DO UPDATE SET
    state = 'waiting', at_head = excluded.at_head, attempts = 0, reason = excluded.reason, note = excluded.note,
    retry_at = excluded.retry_at, parked_at = clock_timestamp(), finished_at = NULL
    WHERE p.finished_at IS NOT NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the event % is parked', id
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'replay it: `dovetail parked replay`';
  END IF;
  PERFORM dovetail.refresh_heads(relay, ARRAY[one.aggregate_type::text], ARRAY[one.aggregate_id::text]);
  INSERT INTO dovetail.audit (what, relay, subject, events, reason) VALUES ('deliver again', relay, id::text, 1, why);
  RETURN true;
END
$$;

-- What has expired means nothing any more, so a gateway may delete it with the few rights that it has.
ALTER FUNCTION dovetail.prune_requests(int) SECURITY DEFINER;

REVOKE ALL ON FUNCTION dovetail.check_reason(text), dovetail.forget_event(text, uuid, text),
  dovetail.deliver_again(text, uuid, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 5;
