-- Version 11 of dovetail's tables in a PostgreSQL database: operators steer relays.

-- Part 1: what an operator ordered for a relay, in every lane of it. '': nothing. 'paused': nobody runs it. 'draining': what
-- is in flight or waits for its next try is delivered, and nothing new is read. 'drained': that has ended, and nobody runs
-- it. `skipped_total` counts events that the relay passed without delivering them: a filter left them out, or an operator
-- moved the relay beyond them. A program of version 10 does not know these orders.

ALTER TABLE dovetail.relay_lane
  ADD COLUMN hold text NOT NULL DEFAULT '' CHECK (hold IN ('', 'paused', 'draining', 'drained')),
  ADD COLUMN hold_since timestamptz,
  ADD COLUMN hold_by text NOT NULL DEFAULT '',
  ADD COLUMN hold_reason text NOT NULL DEFAULT '',
  ADD COLUMN skipped_total bigint NOT NULL DEFAULT 0;

-- What the relay carries, by its configuration: lists of patterns under topics, types, aggregate_types, and under headers by
-- name. Null: everything.
ALTER TABLE dovetail.relay_lane ADD COLUMN filter jsonb;

-- What an operator moved a lane beyond: all that it had not passed at `from_...` and had passed at `to_...`.
CREATE TABLE dovetail.relay_skip (
  relay      text COLLATE "C" NOT NULL,
  lane       int NOT NULL,
  from_start pg_snapshot NOT NULL,
  from_end   pg_snapshot,
  from_seq   bigint NOT NULL,
  to_end     pg_snapshot NOT NULL,
  to_seq     bigint NOT NULL
);
CREATE INDEX relay_skip_lane ON dovetail.relay_skip (relay, lane);

CREATE FUNCTION dovetail.matches(patterns jsonb, value text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT patterns IS NULL OR EXISTS (
    SELECT FROM jsonb_array_elements_text(patterns) AS p (pattern)
    WHERE CASE WHEN right(p.pattern, 1) = '*' THEN starts_with(value, left(p.pattern, -1)) ELSE p.pattern = value END)
$$;

-- As the relay decides it. Malformed headers pass: such an event is parked.
CREATE FUNCTION dovetail.passes_filter(filter jsonb, topic text, aggregate_type text, type text, headers text)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dovetail.matches(filter -> 'topics', topic) AND dovetail.matches(filter -> 'types', type)
    AND dovetail.matches(filter -> 'aggregate_types', aggregate_type)
    AND NOT EXISTS (
      SELECT FROM jsonb_each(filter -> 'headers') AS h (name, patterns)
      WHERE NOT dovetail.matches(h.patterns, nullif(headers, '')::jsonb ->> h.name));
EXCEPTION WHEN data_exception THEN
  RETURN true;
END
$$;
REVOKE ALL ON FUNCTION dovetail.matches(jsonb, text), dovetail.passes_filter(jsonb, text, text, text, text) FROM PUBLIC;

-- For people: what became of each event, as each relay sees it. What its filter leaves out now, or an operator moved it
-- beyond, is skipped.
CREATE OR REPLACE VIEW dovetail.events AS
SELECT o.seq, o.id, r.relay,
       CASE WHEN p.state IS NOT NULL THEN p.state
            WHEN r.relay IS NULL THEN 'pending'
            WHEN NOT (pg_visible_in_snapshot(o.xid, r.window_start) OR (r.window_end IS NOT NULL AND o.seq <= r.window_seq
                      AND pg_visible_in_snapshot(o.xid, r.window_end))) THEN 'pending'
            WHEN r.filter IS NOT NULL
                 AND NOT dovetail.passes_filter(r.filter, o.topic, o.aggregate_type, o.type, o.headers) THEN 'skipped'
            WHEN EXISTS (
              SELECT FROM dovetail.relay_skip AS k
              WHERE k.relay = r.relay AND k.lane = r.lane AND o.seq <= k.to_seq AND pg_visible_in_snapshot(o.xid, k.to_end)
                AND NOT pg_visible_in_snapshot(o.xid, k.from_start)
                AND NOT (k.from_end IS NOT NULL AND o.seq <= k.from_seq AND pg_visible_in_snapshot(o.xid, k.from_end)))
              THEN 'skipped'
            ELSE 'delivered' END AS state,
       o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, octet_length(o.payload) AS payload_bytes,
       o.aggregate_version, o.created_at
FROM dovetail.outbox AS o
LEFT JOIN dovetail.relay_lane AS r
  ON r.source = 'outbox' AND dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
LEFT JOIN dovetail.parked AS p ON p.relay = r.relay AND p.id = o.id;

-- The lag of each lane, as before; `state` shows the order of an operator, too.
CREATE OR REPLACE VIEW dovetail.lag AS
SELECT r.relay, r.lane, split_part(r.owner, '@', 1) AS owner, h.held,
       CASE WHEN r.source = 'outbox' THEN w.pending ELSE b.pending END AS pending,
       CASE WHEN r.source = 'outbox' THEN w.oldest_at ELSE b.oldest_at END AS oldest_at,
       CASE WHEN r.source = 'outbox' THEN coalesce(clock_timestamp() - w.oldest_at, '0')
            WHEN b.oldest_at IS NOT NULL THEN clock_timestamp() - b.oldest_at
            WHEN NOT h.held THEN clock_timestamp() - b.measured_at
            WHEN b.pending = 0 THEN '0' END AS lag,
       CASE WHEN r.hold <> '' AND (r.hold = 'draining' OR NOT h.held) THEN r.hold
            WHEN h.held AND (s.epoch = r.epoch OR split_part(s.owner, '#', 1) = split_part(r.owner, '#', 1)) THEN s.state
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

-- Part 2: what operators do to a relay. Each function writes the audit.

CREATE OR REPLACE FUNCTION dovetail.check_reason(reason text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'this needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why; the audit records it';
  END IF;
  RETURN left(reason, 2000);
END
$$;

-- Refuses an unknown relay. Two operators take turns.
CREATE FUNCTION dovetail.lock_relay(relay text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('dovetail.relay_lane', 0));
  IF NOT EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = lock_relay.relay) THEN
    RAISE EXCEPTION 'no relay or consumer "%" has run in this database', relay
      USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
  END IF;
END
$$;
REVOKE ALL ON FUNCTION dovetail.lock_relay(text) FROM PUBLIC;

-- Whether a process has a lane of the relay. If a lease ends later than its term allows, the clock was set back; it counts
-- as free, and a late write of its owner is refused by the epoch.
CREATE FUNCTION dovetail.relay_has_owner(relay text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM dovetail.relay_lane AS r
                 WHERE r.relay = relay_has_owner.relay AND r.owner <> '' AND r.expires > clock_timestamp()
                   AND (r.lease_term = 0
                     OR r.expires <= clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval '1 microsecond'))
$$;
REVOKE ALL ON FUNCTION dovetail.relay_has_owner(text) FROM PUBLIC;

-- The order for a relay: '' (continue), 'paused' or 'draining'. Returns the one before. Its processes obey with the next
-- renewal of their lease.
CREATE FUNCTION dovetail.hold_relay(relay text, hold text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  before text;
BEGIN
  IF hold IS NULL OR hold NOT IN ('', 'paused', 'draining') THEN
    RAISE EXCEPTION 'a relay is paused or draining, or continues with the order ""; it cannot be "%"', hold
      USING ERRCODE = 'invalid_parameter_value', HINT = 'check the order';
  END IF;
  PERFORM dovetail.lock_relay(relay);
  SELECT max(r.hold) INTO before FROM dovetail.relay_lane AS r WHERE r.relay = hold_relay.relay;
  IF before = hold OR (before = 'drained' AND hold = 'draining') THEN
    RETURN before;
  END IF;
  UPDATE dovetail.relay_lane AS r
  SET hold = hold_relay.hold, hold_since = CASE WHEN hold_relay.hold <> '' THEN clock_timestamp() END,
      hold_by = CASE WHEN hold_relay.hold <> '' THEN session_user ELSE '' END,
      hold_reason = CASE WHEN hold_relay.hold <> '' THEN why ELSE '' END
  WHERE r.relay = hold_relay.relay;
  INSERT INTO dovetail.audit (what, relay, reason)
  VALUES (CASE hold WHEN '' THEN 'resume' WHEN 'paused' THEN 'pause' ELSE 'drain' END, relay, why);
  RETURN before;
END
$$;
REVOKE ALL ON FUNCTION dovetail.hold_relay(text, text, text) FROM PUBLIC;

-- The relay continues after the event with this number of the sequence; null: after all that is there. Events that it passes
-- in this way without delivering them are skipped. `again` were delivered before; `discarded` of these an operator had given
-- up. Nobody may have a lane, because an owner sends on. The new epoch refuses the late write of one whose lease has run out.
-- The slot's position has no meaning any more: the next stream makes a new one.
CREATE FUNCTION dovetail.seek_relay(
  relay text, to_seq bigint, reason text, hold text, dry_run boolean,
  OUT again bigint, OUT skipped bigint, OUT discarded bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  upto bigint := coalesce(to_seq, 9223372036854775807);
  shown pg_snapshot := pg_current_snapshot();
  one dovetail.relay_lane;
  of_lane bigint;
BEGIN
  IF dry_run THEN
    IF NOT EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = seek_relay.relay) THEN
      RAISE EXCEPTION 'no relay or consumer "%" has run in this database', relay
        USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
    END IF;
  ELSE
    PERFORM dovetail.lock_relay(relay);
    PERFORM FROM dovetail.relay_lane AS r WHERE r.relay = seek_relay.relay ORDER BY r.lane FOR UPDATE;
    IF dovetail.relay_has_owner(relay) THEN
      RAISE EXCEPTION 'the relay "%" runs, and would send on from where it is', relay
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'pause it first, and wait until it is paused';
    END IF;
    IF hold IS NULL OR hold NOT IN ('', 'paused', 'draining', 'drained') THEN
      RAISE EXCEPTION 'the order "%" is unknown', hold USING ERRCODE = 'invalid_parameter_value', HINT = 'check the order';
    END IF;
  END IF;
  again := 0;
  skipped := 0;
  FOR one IN SELECT r.* FROM dovetail.relay_lane AS r WHERE r.relay = seek_relay.relay ORDER BY r.lane LOOP
    IF one.source <> 'outbox' THEN
      RAISE EXCEPTION 'the relay "%" reads no outbox: its position is not kept here', relay
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'of a broker, the broker keeps it; of a mapped table, its own columns say which rows are pending';
    END IF;
    again := again + (
      SELECT count(*) FROM dovetail.outbox AS o
      WHERE o.seq > upto AND dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * one.lanes / 256 = one.lane
        AND (pg_visible_in_snapshot(o.xid, one.window_start)
          OR (o.seq <= one.window_seq AND pg_visible_in_snapshot(o.xid, one.window_end))));
    SELECT count(*) INTO of_lane FROM dovetail.outbox AS o
    WHERE (o.xid >= pg_snapshot_xmax(one.window_start) OR o.xid = ANY (ARRAY(SELECT pg_snapshot_xip(one.window_start))))
      AND o.seq <= upto AND pg_visible_in_snapshot(o.xid, shown)
      AND dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * one.lanes / 256 = one.lane
      AND NOT (one.window_end IS NOT NULL AND o.seq <= one.window_seq AND pg_visible_in_snapshot(o.xid, one.window_end));
    skipped := skipped + of_lane;
    CONTINUE WHEN dry_run;
    -- What is before it now comes again.
    UPDATE dovetail.relay_skip AS k SET to_seq = least(k.to_seq, upto)
    WHERE k.relay = seek_relay.relay AND k.lane = one.lane;
    INSERT INTO dovetail.relay_skip (relay, lane, from_start, from_end, from_seq, to_end, to_seq)
    SELECT relay, one.lane, one.window_start, one.window_end, one.window_seq, shown, upto WHERE of_lane > 0;
    UPDATE dovetail.relay_lane AS r
    SET window_start = CASE WHEN to_seq IS NULL THEN shown ELSE '1:1:' END,
        window_end = CASE WHEN to_seq IS NULL THEN NULL ELSE shown END,
        window_seq = coalesce(to_seq, 0),
        passed_seq = least(upto, (SELECT s.last_value FROM dovetail.outbox_seq AS s)),
        system_identifier = (SELECT c.system_identifier FROM pg_control_system() AS c),
        slot = '', slot_timeline = ' ', slot_reported = '0/0', owner = '', expires = '-infinity', epoch = r.epoch + 1,
        skipped_total = r.skipped_total + of_lane, hold = seek_relay.hold,
        hold_since = CASE WHEN seek_relay.hold <> '' THEN r.hold_since END,
        hold_by = CASE WHEN seek_relay.hold <> '' THEN r.hold_by ELSE '' END,
        hold_reason = CASE WHEN seek_relay.hold <> '' THEN r.hold_reason ELSE '' END
    WHERE r.relay = seek_relay.relay AND r.lane = one.lane;
  END LOOP;
  SELECT count(*) INTO discarded FROM dovetail.parked AS p
  WHERE p.relay = seek_relay.relay AND p.state = 'discarded' AND p.position > upto;
  IF NOT dry_run THEN
    INSERT INTO dovetail.audit (what, relay, subject, events, reason)
    VALUES ('seek', relay, coalesce('after ' || to_seq, 'now') || ': ' || again || ' again, ' || skipped || ' skipped',
            again + skipped, why);
  END IF;
END
$$;
REVOKE ALL ON FUNCTION dovetail.seek_relay(text, bigint, text, text, boolean) FROM PUBLIC;

-- What removes or renames a relay must not meet one that runs: it would be made again, and begin with the oldest event.
-- A relay that is held runs without a lease, so that nobody can see it.
CREATE FUNCTION dovetail.check_relay_stopped(relay text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = check_relay_stopped.relay AND r.hold <> '') THEN
    RAISE EXCEPTION 'the relay "%" is paused or drained, so nobody can see whether a process still has it', relay
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'stop its processes, then resume it';
  END IF;
  IF dovetail.relay_has_owner(relay)
     OR EXISTS (SELECT FROM dovetail.relay_process AS p
                WHERE p.relay = check_relay_stopped.relay AND p.expires > clock_timestamp()) THEN
    RAISE EXCEPTION 'the relay "%" runs', relay
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'stop every process that runs it, wait until its lease has run out, then try again';
  END IF;
END
$$;
REVOKE ALL ON FUNCTION dovetail.check_relay_stopped(text) FROM PUBLIC;

-- Progress, counts and parked events go to the new name. Returns the slot that keeps the old name; '': none.
CREATE FUNCTION dovetail.rename_relay(relay text, new_name text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  one dovetail.relay_lane;
BEGIN
  IF coalesce(new_name, '') !~ '^[A-Za-z0-9_.-]{1,255}$' THEN
    RAISE EXCEPTION 'a relay cannot have the name "%"', new_name
      USING ERRCODE = 'invalid_parameter_value', HINT = 'use 1 to 255 letters, digits, "-", "_" and "."';
  END IF;
  PERFORM dovetail.lock_relay(relay);
  PERFORM dovetail.check_relay_stopped(relay);
  SELECT r.* INTO one FROM dovetail.relay_lane AS r WHERE r.relay = rename_relay.relay ORDER BY r.lane LIMIT 1;
  IF one.source <> 'outbox' THEN
    RAISE EXCEPTION 'the relay "%" reads no outbox and cannot get another name', relay
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'a broker, and the slot of a mapped table, know it by its name';
  END IF;
  IF EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.relay = new_name)
     OR EXISTS (SELECT FROM dovetail.parked AS p WHERE p.relay = new_name) THEN
    RAISE EXCEPTION 'there is a relay "%" already, or was one whose parked events are kept', new_name
      USING ERRCODE = 'duplicate_object', HINT = 'choose another name';
  END IF;
  IF EXISTS (SELECT FROM dovetail.consumer AS c WHERE c.name = relay) THEN
    RAISE EXCEPTION '"%" is a consumer, whose inbox knows what it applied by this name', relay
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'a consumer keeps its name';
  END IF;
  UPDATE dovetail.relay_lane AS r
  SET relay = new_name, epoch = r.epoch + 1, slot = '', slot_timeline = ' ', slot_reported = '0/0'
  WHERE r.relay = rename_relay.relay;
  UPDATE dovetail.parked AS p SET relay = new_name WHERE p.relay = rename_relay.relay;
  UPDATE dovetail.relay_skip AS k SET relay = new_name WHERE k.relay = rename_relay.relay;
  DELETE FROM dovetail.relay_state AS s WHERE s.relay = rename_relay.relay;
  DELETE FROM dovetail.relay_process AS p WHERE p.relay = rename_relay.relay;
  INSERT INTO dovetail.audit (what, relay, subject, reason) VALUES ('rename', new_name, relay || ' -> ' || new_name, why);
  RETURN one.slot;
END
$$;
REVOKE ALL ON FUNCTION dovetail.rename_relay(text, text, text) FROM PUBLIC;

-- Removes a relay that is gone for good, so that it holds nothing back. Returns its slot; '': none.
CREATE FUNCTION dovetail.forget_relay(relay text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  slot text;
BEGIN
  PERFORM dovetail.lock_relay(relay);
  PERFORM dovetail.check_relay_stopped(relay);
  IF EXISTS (SELECT FROM dovetail.parked AS p WHERE p.relay = forget_relay.relay AND p.finished_at IS NULL) THEN
    RAISE EXCEPTION 'the relay "%" has parked events', relay
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'replay or discard them first: `dovetail parked list`';
  END IF;
  SELECT max(r.slot) INTO slot FROM dovetail.relay_lane AS r WHERE r.relay = forget_relay.relay;
  DELETE FROM dovetail.relay_lane AS r WHERE r.relay = forget_relay.relay;
  DELETE FROM dovetail.relay_state AS s WHERE s.relay = forget_relay.relay;
  DELETE FROM dovetail.relay_process AS p WHERE p.relay = forget_relay.relay;
  DELETE FROM dovetail.mapped_backlog AS b WHERE b.relay = forget_relay.relay;
  DELETE FROM dovetail.relay_skip AS k WHERE k.relay = forget_relay.relay;
  INSERT INTO dovetail.audit (what, relay, reason) VALUES ('forget relay', relay, why);
  RETURN slot;
END
$$;
REVOKE ALL ON FUNCTION dovetail.forget_relay(text, text) FROM PUBLIC;

-- Part 3: claims, queues and requests after the clock was set back. What ends later than its term and a tenth of it from
-- now was written by a clock that was ahead. The next caller gives it a whole term from now on. A holder that lives
-- keeps its lease, and nobody waits until the clock gets there again.

-- For how long the lease, or the pause, was given. Null: nobody knows, and the clock is believed.
ALTER TABLE dovetail.claim ADD COLUMN term interval;
ALTER TABLE dovetail.queue ADD COLUMN term interval;
ALTER TABLE dovetail.queue ALTER COLUMN term SET DEFAULT '0';
ALTER TABLE dovetail.request ADD COLUMN term interval;

CREATE FUNCTION dovetail.note_term() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ends timestamptz;
BEGIN
  IF TG_TABLE_NAME = 'queue' THEN
    ends := NEW.due;
  ELSE
    ends := NEW.expires;
  END IF;
  NEW.term := CASE WHEN isfinite(ends) THEN greatest('0', ends - clock_timestamp()) END;
  RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION dovetail.note_term() FROM PUBLIC;
CREATE TRIGGER note_term BEFORE UPDATE OF expires ON dovetail.claim FOR EACH ROW EXECUTE FUNCTION dovetail.note_term();
CREATE TRIGGER note_term BEFORE UPDATE OF due ON dovetail.queue FOR EACH ROW EXECUTE FUNCTION dovetail.note_term();

CREATE OR REPLACE FUNCTION dovetail.claim_event(
  of_consumer int, id uuid, created_at timestamptz, digest bigint, lease interval,
  OUT state text, OUT epoch bigint, OUT attempts int)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  known record;
BEGIN
  SELECT i.digest INTO known FROM dovetail.inbox AS i WHERE i.event_id = claim_event.id AND i.consumer_id = of_consumer;
  IF FOUND THEN
    state := CASE WHEN known.digest <> claim_event.digest THEN 'conflict' ELSE 'duplicate' END;
    RETURN;
  END IF;
  INSERT INTO dovetail.claim AS c (event_id, consumer_id, epoch, attempts, expires, term, digest, available_at)
  VALUES (claim_event.id, of_consumer, nextval('dovetail.claim_epoch'), 1, clock_timestamp() + lease, lease,
          claim_event.digest,
          nullif(dovetail.available_at(claim_event.id, claim_event.created_at), dovetail.time_of(claim_event.id)))
  ON CONFLICT (event_id, consumer_id) DO UPDATE
    SET epoch = nextval('dovetail.claim_epoch'), attempts = c.attempts + 1, expires = clock_timestamp() + lease,
        digest = coalesce(excluded.digest, c.digest), available_at = coalesce(excluded.available_at, c.available_at)
    WHERE c.expires <= clock_timestamp() AND (c.digest = excluded.digest) IS NOT false
  RETURNING c.epoch, c.attempts INTO epoch, attempts;
  IF epoch IS NULL THEN
    SELECT c.digest INTO known FROM dovetail.claim AS c WHERE c.event_id = claim_event.id AND c.consumer_id = of_consumer;
    state := CASE WHEN known.digest <> claim_event.digest THEN 'conflict' ELSE 'in_progress' END;
    UPDATE dovetail.claim AS c SET expires = clock_timestamp() + c.term
    WHERE c.event_id = claim_event.id AND c.consumer_id = of_consumer AND c.expires > clock_timestamp() + c.term * 1.1;
    RETURN;
  END IF;
  -- Who completed it meanwhile deleted the row that stood in the way, and is seen only now.
  SELECT i.digest INTO known FROM dovetail.inbox AS i WHERE i.event_id = claim_event.id AND i.consumer_id = of_consumer;
  IF FOUND THEN
    state := CASE WHEN known.digest <> claim_event.digest THEN 'conflict' ELSE 'duplicate' END;
  ELSIF dovetail.is_forgotten(of_consumer, claim_event.id, claim_event.created_at) THEN
    state := 'forgotten';
  ELSE
    state := 'first';
    RETURN;
  END IF;
  DELETE FROM dovetail.claim AS c WHERE c.event_id = claim_event.id AND c.consumer_id = of_consumer;
  epoch := NULL;
  attempts := NULL;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.receive(
  consumer text, events_max int DEFAULT 1, lease interval DEFAULT '1 minute', attempts_max int DEFAULT 15)
RETURNS TABLE (id uuid, epoch bigint, attempts int, topic text, aggregate_type text, aggregate_id text, type text,
               content_type text, headers jsonb, payload bytea, aggregate_version bigint, created_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  of_consumer int := dovetail.known_consumer(consumer);
  at          timestamptz := clock_timestamp();
  last_due    timestamptz := '-infinity';
  last_number bigint := 0;
  seen        uuid[];
  chosen      uuid[] := '{}';
  one         record;
  room        int := events_max;
  page        int := 1;
  pages       int := 0;
  set_back    uuid[];
BEGIN
  PERFORM dovetail.check_lease(lease);
  IF coalesce(events_max, 0) NOT BETWEEN 1 AND 10000 OR coalesce(attempts_max, 0) < 1 THEN
    RAISE EXCEPTION 'events_max is %, attempts_max is %', coalesce(events_max::text, 'null'),
                    coalesce(attempts_max::text, 'null')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'events_max is from 1 to 10000, attempts_max at least 1';
  END IF;
  WHILE room > 0 LOOP
    seen := '{}';
    FOR one IN
      SELECT q.event_id, q.due, q.number, q.held, q.attempts, q.failures, q.reason FROM dovetail.queue AS q
      WHERE q.consumer_id = of_consumer AND NOT q.waiting AND q.parked_number IS NULL AND q.due <= at
        AND (q.due, q.number) > (last_due, last_number)
      ORDER BY q.due, q.number LIMIT greatest(room, page) FOR UPDATE SKIP LOCKED
    LOOP
      last_due := one.due;
      last_number := one.number;
      IF one.held AND one.failures >= least(5, attempts_max) THEN
        PERFORM dovetail.queue_park(of_consumer, one.event_id, format(
          'given up after %s attempts: the last worker had it until its lease ended', one.attempts)
          || coalesce('; before that: ' || nullif(one.reason, ''), ''));
      ELSIF NOT one.held THEN
        seen := seen || one.event_id;
      ELSE
        -- A worker died with it or was too slow, perhaps because of another that it had: so this one goes out alone.
        IF cardinality(chosen) + cardinality(seen) = 0 THEN
          seen := ARRAY[one.event_id];
        END IF;
        room := 0;
        EXIT;
      END IF;
    END LOOP;
    EXIT WHEN NOT FOUND;
    chosen := chosen || ARRAY(SELECT unnest(seen) EXCEPT SELECT unnest(dovetail.queue_behind(of_consumer, seen)));
    room := least(room, events_max - cardinality(chosen));
    -- What comes now is behind others, mostly: it is put aside for good. In steps, so that a limit of the caller's on the
    -- time of a statement does not undo it again and again.
    page := 200;
    pages := pages + 1;
    EXIT WHEN pages = 25;
  END LOOP;
  -- The look costs more than a busy worker should pay each time.
  IF cardinality(chosen) < events_max OR random() < 0.01 THEN
    set_back := ARRAY(
      SELECT f.event_id FROM (
        SELECT q.event_id, q.due, q.term FROM dovetail.queue AS q
        WHERE q.consumer_id = of_consumer AND NOT q.waiting AND q.parked_number IS NULL AND q.due > at
        ORDER BY q.due DESC LIMIT 100) AS f
      WHERE f.due > at + f.term * 1.1);
    UPDATE dovetail.queue AS q SET due = at + q.term
    WHERE q.consumer_id = of_consumer AND q.event_id = ANY (ARRAY(
      SELECT s.event_id FROM dovetail.queue AS s
      WHERE s.event_id = ANY (set_back) AND s.consumer_id = of_consumer AND s.due > at + s.term * 1.1
      FOR NO KEY UPDATE SKIP LOCKED));
  END IF;
  RETURN QUERY
  WITH taken AS (
    UPDATE dovetail.queue AS q
    SET epoch = nextval('dovetail.claim_epoch'), attempts = q.attempts + 1, attempts_max = receive.attempts_max,
        suspect = q.suspect OR q.held, held = true, due = clock_timestamp() + lease
    WHERE q.event_id = ANY (chosen[1:events_max]) AND q.consumer_id = of_consumer RETURNING q.*)
  SELECT t.event_id, t.epoch, t.attempts, t.topic, t.aggregate_type, t.aggregate_id, t.type, t.content_type, t.headers,
         t.payload, t.aggregate_version, t.created_at
  FROM taken AS t ORDER BY t.number;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.take_request(
  scope text, key text, fingerprint bytea, token uuid, lease interval, keep interval, wait boolean, retry_unknown boolean,
  OUT state text, OUT status int, OUT headers text, OUT body bytea, OUT retry_after interval, OUT attempts int)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  seen dovetail.request;
  is_there boolean;
  is_locked boolean := lease IS NOT NULL;
  lock_number bigint := hashtextextended(take_request.key, hashtextextended(take_request.scope, 7309));
  moment timestamptz;
  ends timestamptz;
BEGIN
  IF take_request.keep < coalesce(take_request.lease, '0') OR coalesce(take_request.lease, '1 second') <= '0' THEN
    RAISE EXCEPTION 'a request is kept for %, and its lease is %', take_request.keep, take_request.lease
      USING ERRCODE = 'invalid_parameter_value', HINT = 'check that the lease is positive and no longer than it is kept';
  END IF;
  LOOP
    SELECT * INTO seen FROM dovetail.request AS r WHERE r.scope = take_request.scope AND r.key = take_request.key;
    is_there := FOUND;
    moment := clock_timestamp();
    ends := CASE WHEN take_request.lease IS NULL THEN '-infinity' ELSE moment + take_request.lease END;
    take_request.attempts := coalesce(seen.attempts, 0);
    IF is_there AND seen.expires_at > moment AND seen.status IS NOT NULL THEN
      IF seen.fingerprint <> take_request.fingerprint THEN
        take_request.state := 'mismatch';
      ELSE
        take_request.state := 'finished';
        take_request.status := seen.status;
        take_request.headers := seen.headers;
        take_request.body := seen.body;
      END IF;
      RETURN;
    END IF;
    -- One that runs inside its transaction cannot be seen, only met: at this lock.
    IF NOT is_locked THEN
      IF take_request.wait THEN
        PERFORM pg_advisory_xact_lock(lock_number);
      ELSIF NOT pg_try_advisory_xact_lock(lock_number) THEN
        take_request.state := 'running';
        take_request.retry_after := '1 second';
        RETURN;
      END IF;
      is_locked := true;
      CONTINUE;
    END IF;
    IF NOT is_there THEN
      INSERT INTO dovetail.request (scope, key, fingerprint, token, lease_until, term, created_at, expires_at)
      VALUES (take_request.scope, take_request.key, take_request.fingerprint, take_request.token, ends,
              take_request.lease, moment, moment + take_request.keep)
      ON CONFLICT DO NOTHING;
      CONTINUE WHEN NOT FOUND;
      take_request.state := 'first';
      take_request.attempts := 1;
      RETURN;
    END IF;
    IF seen.status IS NULL AND seen.token = take_request.token THEN
      take_request.state := 'first';  -- the same caller again, who lost our answer
      RETURN;
    END IF;
    IF seen.status IS NULL AND seen.lease_until > moment + seen.term * 1.1 THEN
      UPDATE dovetail.request AS r SET lease_until = moment + r.term
      WHERE r.scope = take_request.scope AND r.key = take_request.key AND r.token = seen.token
        AND r.lease_until = seen.lease_until;
      CONTINUE;
    END IF;
    IF seen.status IS NULL AND (seen.lease_until > moment OR seen.expires_at > moment) THEN
      take_request.state := CASE WHEN seen.fingerprint <> take_request.fingerprint THEN 'mismatch'
                                 WHEN seen.lease_until > moment THEN 'running'
                                 WHEN NOT take_request.retry_unknown THEN 'unknown' END;
      IF take_request.state = 'running' THEN
        take_request.retry_after := seen.lease_until - moment;
      END IF;
      IF take_request.state IS NOT NULL THEN
        RETURN;
      END IF;
    END IF;
    -- Expired, or to be tried again. The first caller changes the token.
    UPDATE dovetail.request AS r
    SET fingerprint = take_request.fingerprint, token = take_request.token, lease_until = ends,
        term = take_request.lease, status = NULL, headers = NULL, body = NULL, created_at = moment, finished_at = NULL,
        expires_at = moment + take_request.keep,
        attempts = CASE WHEN seen.expires_at > moment THEN r.attempts + 1 ELSE 1 END
    WHERE r.scope = take_request.scope AND r.key = take_request.key AND r.token = seen.token
      AND r.status IS NOT DISTINCT FROM seen.status AND r.lease_until = seen.lease_until
    RETURNING r.attempts INTO take_request.attempts;
    CONTINUE WHEN NOT FOUND;
    take_request.state := 'first';
    RETURN;
  END LOOP;
END
$$;

CREATE OR REPLACE VIEW dovetail.requests AS
SELECT scope, key, CASE WHEN status IS NOT NULL THEN 'finished'
                        WHEN lease_until <= clock_timestamp() OR lease_until > clock_timestamp() + term * 1.1 THEN 'unknown'
                        ELSE 'running' END AS state,
       attempts, status, octet_length(body) AS body_bytes, created_at, finished_at, expires_at
FROM dovetail.request WHERE expires_at > '-infinity';

CREATE OR REPLACE FUNCTION dovetail.forget_request(scope text, key text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(forget_request.reason, '') = '' THEN
    RAISE EXCEPTION 'to forget a request needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the request may run again';
  END IF;
  DELETE FROM dovetail.request AS r
  WHERE r.scope = forget_request.scope AND r.key = forget_request.key
    AND (r.status IS NOT NULL OR r.lease_until <= clock_timestamp() OR r.lease_until > clock_timestamp() + r.term * 1.1);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO dovetail.audit (what, subject, events, reason)
  VALUES ('forget request', forget_request.scope || ' ' || forget_request.key, 1, left(forget_request.reason, 1000));
  RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.prune_requests(rows_max int) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH old AS (
    SELECT r.ctid FROM dovetail.request AS r
    WHERE r.expires_at <= clock_timestamp()
      AND (r.status IS NOT NULL OR r.lease_until <= clock_timestamp() OR r.lease_until > clock_timestamp() + r.term * 1.1)
    ORDER BY r.expires_at LIMIT rows_max FOR UPDATE SKIP LOCKED),
  gone AS (DELETE FROM dovetail.request AS r USING old WHERE r.ctid = old.ctid RETURNING 1)
  SELECT count(*) FROM gone
$$;

-- Part 4: what roles may not write past the audit.

-- The relay's role writes its lanes: `drained`, where an operator ordered it, and its first target. Every other order and
-- target is a decision, which is written down. In the functions above the user is the owner.
CREATE FUNCTION dovetail.refuse_order() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_has_role(current_user, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = TG_RELID), 'USAGE') THEN
    RAISE EXCEPTION 'only an operator gives orders to a relay, or another target'
      USING ERRCODE = 'insufficient_privilege',
            HINT = 'use `dovetail relay pause`, `drain`, `resume` or `retarget`, which keep the reason';
  END IF;
  RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION dovetail.refuse_order() FROM PUBLIC;
CREATE TRIGGER refuse_order BEFORE UPDATE OF hold, target ON dovetail.relay_lane FOR EACH ROW
  WHEN ((OLD.hold <> NEW.hold AND NOT (OLD.hold = 'draining' AND NEW.hold = 'drained'))
    OR (OLD.target <> NEW.target AND OLD.target <> ''))
  EXECUTE FUNCTION dovetail.refuse_order();

-- Before the payload of an event is shown. A table of the application's own is unknown here: where a relay reads one, the
-- event may be in it.
CREATE FUNCTION dovetail.note_reveal(id uuid, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
BEGIN
  IF NOT EXISTS (SELECT FROM dovetail.outbox AS o WHERE o.id = note_reveal.id)
     AND NOT EXISTS (SELECT FROM dovetail.delayed AS d WHERE d.id = note_reveal.id)
     AND NOT EXISTS (SELECT FROM dovetail.parked AS p WHERE p.id = note_reveal.id)
     AND NOT EXISTS (SELECT FROM dovetail.queue AS q WHERE q.event_id = note_reveal.id)
     AND NOT EXISTS (SELECT FROM dovetail.relay_lane AS r WHERE r.source = 'mapped') THEN
    RAISE EXCEPTION 'this database has no event %', id
      USING ERRCODE = 'undefined_object', HINT = 'check the id; its payload may have been pruned';
  END IF;
  INSERT INTO dovetail.audit (what, subject, events, reason) VALUES ('reveal', id::text, 1, why);
END
$$;
REVOKE ALL ON FUNCTION dovetail.note_reveal(uuid, text) FROM PUBLIC;

-- In the transaction that publishes the changed copy of an event, so that the audit tells of no copy that does not exist.
-- False: another transaction published it, and noted it.
CREATE FUNCTION dovetail.note_edit(id uuid, copy uuid, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  why text := dovetail.check_reason(reason);
  published xid8;
BEGIN
  SELECT o.xid INTO published FROM dovetail.outbox AS o
  WHERE o.id = copy AND nullif(o.headers, '')::jsonb ->> 'dovetail-replaces' = note_edit.id::text;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the outbox has no event % that replaces the event %', copy, id
      USING ERRCODE = 'undefined_object', HINT = 'publish it first, in this transaction';
  END IF;
  IF published <> pg_current_xact_id() THEN
    RETURN false;
  END IF;
  INSERT INTO dovetail.audit (what, subject, events, reason)
  VALUES ('edit', id::text, 1, left(why, 1950) || '; as ' || copy);
  RETURN true;
END
$$;
REVOKE ALL ON FUNCTION dovetail.note_edit(uuid, uuid, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 11;
