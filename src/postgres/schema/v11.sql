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

-- What an operator did with an event that changes no row here: 'reveal' (its payload was shown) or 'edit' (a changed copy
-- goes out).
CREATE FUNCTION dovetail.note_action(what text, id uuid, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF what IS NULL OR id IS NULL OR what NOT IN ('reveal', 'edit') THEN
    RAISE EXCEPTION 'the action is reveal or edit; it cannot be "%"', what
      USING ERRCODE = 'invalid_parameter_value', HINT = 'check the action and the id';
  END IF;
  INSERT INTO dovetail.audit (what, subject, events, reason)
  VALUES (note_action.what, note_action.id::text, 1, dovetail.check_reason(note_action.reason));
END
$$;
REVOKE ALL ON FUNCTION dovetail.note_action(text, uuid, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 11;
