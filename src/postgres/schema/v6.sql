-- Version 6: the outbox source: no events in the log alone, proof that the server did not crash, delayed events.

-- Part 1: every event is a row. What stood in the log alone was lost with its slot.
DROP FUNCTION
  dovetail.emit(text, text, text, bytea, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, jsonb, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, text, jsonb, text, uuid, bigint, text),
  dovetail.emit_event(uuid, text, text, text, text, text, text, bytea, bigint);

-- Part 2: proof that the server did not crash. After a crash it gives numbers of transactions again that nobody had put on
-- disk, while connections behind a pooler live on: a snapshot in a relay's memory then hides new events. Recovery empties
-- an unlogged table, so who still finds the mark knows that there was no crash.
CREATE UNLOGGED TABLE dovetail.server_mark (
  only_row int PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
  mark     uuid NOT NULL
);

CREATE FUNCTION dovetail.mark_server() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO dovetail.server_mark (mark) SELECT gen_random_uuid()
  WHERE NOT EXISTS (SELECT FROM dovetail.server_mark) ON CONFLICT DO NOTHING
$$;
REVOKE ALL ON FUNCTION dovetail.mark_server() FROM PUBLIC;

-- As before, and the first row carries in aggregate_id the run of the server: its history, when it was started, and the
-- mark; null: it crashed, and nobody has marked it since.
CREATE OR REPLACE FUNCTION dovetail.read_window(
  from_xmax xid8, from_xip xid8[], first_slot int, last_slot int, events_max bigint, bytes_max bigint)
RETURNS TABLE (seq bigint, id uuid, topic text, aggregate_type text, aggregate_id text, type text, content_type text,
               headers text, payload bytea, aggregate_version bigint, created_at timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH part AS MATERIALIZED (
    (SELECT o.seq, o.id, o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, o.headers, o.payload,
            o.aggregate_version, o.created_at
     FROM dovetail.outbox AS o
     WHERE o.xid >= from_xmax AND (last_slot - first_slot = 255
       OR dovetail.slot(o.aggregate_type, o.aggregate_id, o.id) BETWEEN first_slot AND last_slot)
     ORDER BY o.xid, o.seq LIMIT events_max + 1)
    UNION ALL
    (SELECT late.* FROM unnest(from_xip) AS ended (xid) CROSS JOIN LATERAL (
       SELECT o.seq, o.id, o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, o.headers, o.payload,
              o.aggregate_version, o.created_at
       FROM dovetail.outbox AS o
       WHERE o.xid = ended.xid AND (last_slot - first_slot = 255
         OR dovetail.slot(o.aggregate_type, o.aggregate_id, o.id) BETWEEN first_slot AND last_slot)
       ORDER BY o.seq LIMIT events_max + 1) AS late
     LIMIT events_max + 1)),
  total AS MATERIALIZED (
    SELECT count(*) AS events, coalesce(sum(
             octet_length(part.payload) + octet_length(part.headers) + octet_length(part.topic) +
             octet_length(part.aggregate_type) + octet_length(part.aggregate_id) + octet_length(part.type) +
             octet_length(part.content_type)), 0) AS bytes
    FROM part)
  SELECT total.events, NULL::uuid, pg_current_snapshot()::text,
         CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END,
         (SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END
                 || ' ' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || ' ' || m.mark
          FROM dovetail.server_mark AS m),
         NULL, NULL, NULL, NULL::bytea, (SELECT last_value FROM dovetail.outbox_seq), NULL::timestamptz
  FROM total
  UNION ALL
  SELECT part.* FROM part, total WHERE total.events <= events_max AND total.bytes <= bytes_max;
END
$$;

-- Part 3: delayed events.

-- One that cannot be released is put off, and says why: `deliver_at` is the next try then, and `first_due` its time.
ALTER TABLE dovetail.delayed
  ADD COLUMN failures  int NOT NULL DEFAULT 0,
  ADD COLUMN reason    text NOT NULL DEFAULT '',
  ADD COLUMN first_due timestamptz;

-- Whether a row comes into the outbox by the hand of release_delayed(). Anybody can set the setting, but only that function
-- sets it and has the rights of the owner, who may lift the limit anyway.
CREATE FUNCTION dovetail.is_release() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(current_setting('dovetail.releasing', true), '') = 'on'
     AND EXISTS (SELECT FROM pg_class WHERE oid = 'dovetail.outbox'::regclass AND pg_get_userbyid(relowner) = current_user)
$$;

-- The limit binds publishers, never the relay: what is delayed was published already.
CREATE OR REPLACE FUNCTION dovetail.set_backlog_limit(events_max bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dovetail.outbox_limit SET backlog_events_max = events_max;
  DROP TRIGGER IF EXISTS check_backlog ON dovetail.outbox;
  IF events_max IS NOT NULL THEN
    CREATE TRIGGER check_backlog BEFORE INSERT ON dovetail.outbox
      FOR EACH STATEMENT WHEN (NOT dovetail.is_release()) EXECUTE FUNCTION dovetail.check_backlog();
  END IF;
END
$$;
SELECT dovetail.set_backlog_limit(backlog_events_max) FROM dovetail.outbox_limit WHERE backlog_events_max IS NOT NULL;

-- Moves these events into the outbox.
CREATE FUNCTION dovetail.release_events(ids uuid[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moved bigint;
BEGIN
  -- Not as a setting of the function: only superusers may give a function one that the server does not know.
  PERFORM set_config('dovetail.releasing', 'on', true);
  WITH due AS (DELETE FROM dovetail.delayed WHERE id = ANY (ids) RETURNING *)
  INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                               aggregate_version, created_at)
  SELECT id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version, created_at
  FROM due ORDER BY deliver_at, number
  ON CONFLICT (id) DO NOTHING;
  GET DIAGNOSTICS moved = ROW_COUNT;
  PERFORM set_config('dovetail.releasing', '', true);
  RETURN moved;
END
$$;
REVOKE ALL ON FUNCTION dovetail.release_events(uuid[]) FROM PUBLIC;

-- Moves at most so many due events into the outbox, in the order in which they were due. One mover at a time keeps
-- that order; the others have nothing to do. One that the outbox does not take is put off, and holds up no other.
CREATE OR REPLACE FUNCTION dovetail.release_delayed(events_max int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  due   uuid[];
  one   uuid;
  moved bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('dovetail.delayed', 0)) THEN
    RETURN 0;
  END IF;
  due := ARRAY(SELECT id FROM dovetail.delayed WHERE deliver_at <= clock_timestamp() ORDER BY deliver_at, number
               LIMIT events_max);
  BEGIN
    RETURN dovetail.release_events(due);
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- one by one
  END;
  FOREACH one IN ARRAY due LOOP
    BEGIN
      moved := moved + dovetail.release_events(ARRAY[one]);
    EXCEPTION WHEN OTHERS THEN
      UPDATE dovetail.delayed SET failures = failures + 1, reason = left(format('%s (%s)', SQLERRM, SQLSTATE), 1000),
        first_due = coalesce(first_due, deliver_at),
        deliver_at = clock_timestamp() + least(interval '1 s' * 2 ^ least(failures, 20), interval '15 min')
      WHERE id = one;
    END;
  END LOOP;
  RETURN moved;
END
$$;

-- An operator does not want it any more. False: there is none, or it was released already.
CREATE FUNCTION dovetail.cancel_delayed(id uuid, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'to cancel an event needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why it is not to be delivered';
  END IF;
  DELETE FROM dovetail.delayed AS d WHERE d.id = cancel_delayed.id;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO dovetail.audit (what, subject, events, reason) VALUES ('cancel', cancel_delayed.id::text, 1, left(reason, 2000));
  RETURN true;
END
$$;
REVOKE ALL ON FUNCTION dovetail.cancel_delayed(uuid, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 6;
