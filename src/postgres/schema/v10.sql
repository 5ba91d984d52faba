-- Version 10 of dovetail's tables in a PostgreSQL database: one word for one thing. docs/GLOSSARY.md has the words.
-- Programs that know an older version only are refused from here on. What applications call keeps its name.

-- Part 1: `reader` was a lane of a relay.

ALTER TABLE dovetail.reader RENAME TO relay_lane;
ALTER INDEX dovetail.reader_pkey RENAME TO relay_lane_pkey;
ALTER TABLE dovetail.relay_lane RENAME CONSTRAINT reader_relay_check TO relay_lane_relay_check;
ALTER TABLE dovetail.relay_lane RENAME CONSTRAINT reader_lanes_check TO relay_lane_lanes_check;
ALTER TABLE dovetail.relay_lane RENAME CONSTRAINT reader_check TO relay_lane_lane_check;

-- The snapshot window that is read. What was visible in `window_start` is delivered or parked. When `window_end` is set, so
-- is everything up to `window_seq` that is visible in it and was not in `window_start`.
ALTER TABLE dovetail.relay_lane RENAME COLUMN prev TO window_start;
ALTER TABLE dovetail.relay_lane RENAME COLUMN now TO window_end;
ALTER TABLE dovetail.relay_lane RENAME COLUMN seq TO window_seq;

-- Whether the lane reads the WAL now or the table, since when and why; and on which timeline its slot was used.
ALTER TABLE dovetail.relay_lane RENAME COLUMN streams TO reads_wal;
ALTER TABLE dovetail.relay_lane RENAME COLUMN streams_since TO reads_since;
ALTER TABLE dovetail.relay_lane RENAME COLUMN streams_why TO reads_why;
ALTER TABLE dovetail.relay_lane RENAME COLUMN slot_history TO slot_timeline;

-- Where the lane reads: the outbox, a mapped table, or a broker. Of a broker only the lease, the counts and the parked
-- events are here. `delivered_total` counts what the receiver has confirmed, replayed events included.
ALTER TABLE dovetail.relay_lane ADD COLUMN source text NOT NULL DEFAULT 'outbox'
  CHECK (source IN ('outbox', 'mapped', 'broker'));
UPDATE dovetail.relay_lane
SET source = CASE WHEN outside THEN 'broker' WHEN mapped THEN 'mapped' ELSE 'outbox' END,
    settled_total = greatest(0, settled_total - parked_total + replayed_total);
ALTER TABLE dovetail.relay_lane RENAME COLUMN settled_total TO delivered_total;

-- Part 2: a slot is a replication slot, and 1/256 of the keys is a bucket. `row_state` is the state that the row of a mapped
-- table carries.

ALTER FUNCTION dovetail.slot(text, text, uuid) RENAME TO bucket;
ALTER TABLE dovetail.parked RENAME COLUMN slot TO bucket;
ALTER TABLE dovetail.parked RENAME COLUMN marked TO row_state;

-- Part 3: a connection that applies events of a consumer is a session, and no lane.

ALTER TABLE dovetail.consumer_lane RENAME TO consumer_session;
ALTER TABLE dovetail.consumer_session RENAME COLUMN lane TO session;
ALTER INDEX dovetail.consumer_lane_pkey RENAME TO consumer_session_pkey;

-- Part 4: sizes are in bytes.

ALTER VIEW dovetail.events RENAME COLUMN payload_length TO payload_bytes;
ALTER VIEW dovetail.queue_parked RENAME COLUMN payload_length TO payload_bytes;

-- Part 5: views and functions in these words.

-- For people: what became of each event, as each relay sees it.
CREATE OR REPLACE VIEW dovetail.events AS
SELECT o.seq, o.id, r.relay,
       CASE WHEN p.state IS NOT NULL THEN p.state
            WHEN r.relay IS NULL THEN 'pending'
            WHEN pg_visible_in_snapshot(o.xid, r.window_start) THEN 'delivered'
            WHEN r.window_end IS NOT NULL AND o.seq <= r.window_seq
                 AND pg_visible_in_snapshot(o.xid, r.window_end) THEN 'delivered'
            ELSE 'pending' END AS state,
       o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, octet_length(o.payload) AS payload_bytes,
       o.aggregate_version, o.created_at
FROM dovetail.outbox AS o
LEFT JOIN dovetail.relay_lane AS r
  ON r.source = 'outbox' AND dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
LEFT JOIN dovetail.parked AS p ON p.relay = r.relay AND p.id = o.id;

-- The lag of each lane: how many events are before it, and how old the oldest is. Of a mapped table it is what the relay
-- last counted; when no relay runs, the lag grows from then on, because nobody knows what came since. What is pending in a
-- broker only the broker knows: null. `state` is 'stopped' when no relay runs.
CREATE OR REPLACE VIEW dovetail.lag AS
SELECT r.relay, r.lane, split_part(r.owner, '@', 1) AS owner, h.held,
       CASE WHEN r.source = 'outbox' THEN w.pending ELSE b.pending END AS pending,
       CASE WHEN r.source = 'outbox' THEN w.oldest_at ELSE b.oldest_at END AS oldest_at,
       CASE WHEN r.source = 'outbox' THEN coalesce(clock_timestamp() - w.oldest_at, '0')
            WHEN b.oldest_at IS NOT NULL THEN clock_timestamp() - b.oldest_at
            WHEN NOT h.held THEN clock_timestamp() - b.measured_at
            WHEN b.pending = 0 THEN '0' END AS lag,
       CASE WHEN h.held AND (s.epoch = r.epoch OR split_part(s.owner, '#', 1) = split_part(r.owner, '#', 1)) THEN s.state
            WHEN h.held THEN 'unknown'
            WHEN s.expires > clock_timestamp() THEN s.state
            ELSE 'stopped' END AS state,
       s.since AS state_since, s.last_error, s.next_try
FROM dovetail.relay_lane AS r
CROSS JOIN LATERAL (
  SELECT r.owner <> '' AND r.expires > clock_timestamp() AND (r.lease_term = 0
    OR r.expires <= clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval '1 microsecond') AS held) AS h
LEFT JOIN dovetail.relay_state AS s ON s.relay = r.relay AND s.lane = r.lane
LEFT JOIN dovetail.mapped_backlog AS b ON b.relay = r.relay AND b.lane = r.lane AND r.source = 'mapped'
CROSS JOIN LATERAL (
  SELECT count(*) AS pending, min(o.created_at) AS oldest_at
  FROM dovetail.outbox AS o
  WHERE r.source = 'outbox'
    AND (o.xid >= pg_snapshot_xmax(r.window_start) OR o.xid = ANY (ARRAY(SELECT pg_snapshot_xip(r.window_start))))
    AND dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
    AND NOT (r.window_end IS NOT NULL AND o.seq <= r.window_seq AND pg_visible_in_snapshot(o.xid, r.window_end))) AS w;

ALTER TABLE dovetail.relay_lane DROP COLUMN mapped, DROP COLUMN outside;

-- About how many events the slowest relay has still before it; counts numbers, of which rollbacks leave some unused.
CREATE OR REPLACE FUNCTION dovetail.backlog() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT greatest(0, (SELECT last_value FROM dovetail.outbox_seq) -
                     coalesce((SELECT min(passed_seq) FROM dovetail.relay_lane WHERE source = 'outbox'), 0))
$$;

-- What is visible now to lanes of these buckets and was not visible in the snapshot with this xmax and xip. One row without
-- an id says how many events there are, the snapshot of this statement, the run of the server (its timeline, when it was
-- started, and the mark; null: it crashed, and nobody has marked it since) and the number of the sequence. The events are
-- the other rows, in no order, when there are at most events_max with at most bytes_max. The timeline changes when a
-- standby takes over: it may not have what was read from its predecessor, and uses the same numbers of transactions again.
DROP FUNCTION dovetail.read_window(xid8, xid8[], int, int, bigint, bigint);
CREATE FUNCTION dovetail.read_window(
  from_xmax xid8, from_xip xid8[], first_bucket int, last_bucket int, events_max bigint, bytes_max bigint)
RETURNS TABLE (seq bigint, id uuid, topic text, aggregate_type text, aggregate_id text, type text, content_type text,
               headers text, payload bytea, aggregate_version bigint, created_at timestamptz,
               events bigint, snapshot text, server_run text, last_seq bigint)
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
     WHERE o.xid >= from_xmax AND (last_bucket - first_bucket = 255
       OR dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) BETWEEN first_bucket AND last_bucket)
     ORDER BY o.xid, o.seq LIMIT events_max + 1)
    UNION ALL
    (SELECT late.* FROM unnest(from_xip) AS ended (xid) CROSS JOIN LATERAL (
       SELECT o.seq, o.id, o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, o.headers, o.payload,
              o.aggregate_version, o.created_at
       FROM dovetail.outbox AS o
       WHERE o.xid = ended.xid AND (last_bucket - first_bucket = 255
         OR dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) BETWEEN first_bucket AND last_bucket)
       ORDER BY o.seq LIMIT events_max + 1) AS late
     LIMIT events_max + 1)),
  total AS MATERIALIZED (
    SELECT count(*) AS events, coalesce(sum(
             octet_length(part.payload) + octet_length(part.headers) + octet_length(part.topic) +
             octet_length(part.aggregate_type) + octet_length(part.aggregate_id) + octet_length(part.type) +
             octet_length(part.content_type)), 0) AS bytes
    FROM part)
  SELECT NULL::bigint, NULL::uuid, NULL, NULL, NULL, NULL, NULL, NULL, NULL::bytea, NULL::bigint, NULL::timestamptz,
         total.events, pg_current_snapshot()::text,
         (SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END
                 || ' ' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || ' ' || m.mark
          FROM dovetail.server_mark AS m),
         (SELECT last_value FROM dovetail.outbox_seq)
  FROM total
  UNION ALL
  SELECT part.*, NULL, NULL, NULL, NULL FROM part, total WHERE total.events <= events_max AND total.bytes <= bytes_max;
END
$$;
REVOKE ALL ON FUNCTION dovetail.read_window(xid8, xid8[], int, int, bigint, bigint) FROM PUBLIC;

-- Has the relay deliver an event of the outbox once more, by way of its parking. False: the outbox does not have it any
-- more, or never had.
CREATE OR REPLACE FUNCTION dovetail.deliver_again(relay text, id uuid, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  one dovetail.outbox;
BEGIN
  IF NOT EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = deliver_again.relay AND r.source = 'outbox') THEN
    RAISE EXCEPTION 'no relay or consumer "%" reads this outbox', relay
      USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
  END IF;
  SELECT o.* INTO one FROM dovetail.outbox AS o WHERE o.id = deliver_again.id;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  -- It would overtake those of its key that are still to come.
  IF EXISTS (
    SELECT FROM dovetail.relay_lane AS r
    WHERE r.relay = deliver_again.relay AND NOT pg_visible_in_snapshot(one.xid, r.window_start)
      AND dovetail.bucket(one.aggregate_type, one.aggregate_id, one.id)
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

-- For programs of dovetail, before they drop a slot. The right to drop it is the login's own, so this function does not do
-- it. False: there is no such slot.
CREATE OR REPLACE FUNCTION dovetail.note_slot_drop(slot text, of_relay text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles AS r
                 WHERE r.rolname = dovetail.acting_role() AND (r.rolsuper OR r.rolreplication)) THEN
    RAISE EXCEPTION 'the role "%" may not drop a slot', dovetail.acting_role()
      USING ERRCODE = 'insufficient_privilege', HINT = 'give the login the attribute REPLICATION';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_replication_slots AS s WHERE s.slot_name = slot) THEN
    RETURN false;
  END IF;
  INSERT INTO dovetail.audit (what, relay, subject)
  VALUES ('drop slot', coalesce((SELECT min(r.relay) FROM dovetail.relay_lane AS r WHERE r.relay = of_relay), ''), slot);
  RETURN true;
END
$$;

-- Lets the relay go on with another target, and returns the one before. Not while it runs: it would go on with the old
-- one. Whoever runs it all the same, because a clock was set, is fenced by the epoch.
CREATE OR REPLACE FUNCTION dovetail.retarget_relay(relay text, target text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  before text;
BEGIN
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'another target needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the relay gets another target';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('dovetail.relay_lane', 0));
  SELECT r.target INTO before FROM dovetail.relay_lane AS r WHERE r.relay = retarget_relay.relay ORDER BY r.lane LIMIT 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no relay "%" in this database', relay
      USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
  END IF;
  IF EXISTS (SELECT FROM dovetail.relay_lane AS r
             WHERE r.relay = retarget_relay.relay AND r.owner <> '' AND r.expires > clock_timestamp()
               AND (r.lease_term = 0
                 OR r.expires <= clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval '1 microsecond')) THEN
    RAISE EXCEPTION 'the relay "%" runs, and would go on with its old target', relay
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'stop every process that runs it, then try again';
  END IF;
  UPDATE dovetail.relay_lane AS r SET target = retarget_relay.target, owner = '', epoch = r.epoch + 1
    WHERE r.relay = retarget_relay.relay;
  INSERT INTO dovetail.audit (what, relay, subject, reason)
  VALUES ('retarget', relay, left(before || ' -> ' || target, 2000), left(reason, 2000));
  RETURN before;
END
$$;

UPDATE dovetail.schema_version SET version = 10, compatible_from = 10;
