-- Version 9 of dovetail's tables in a PostgreSQL database: what relays say about themselves.

-- Events that were delivered out of parking. What was delivered in all is settled_total - parked_total + replayed_total.
ALTER TABLE dovetail.reader ADD COLUMN replayed_total bigint NOT NULL DEFAULT 0;
UPDATE dovetail.reader AS r SET replayed_total = (
  SELECT count(*) FROM dovetail.parked AS p
  WHERE p.relay = r.relay AND p.state = 'delivered' AND p.slot * r.lanes / 256 = r.lane);

-- Where the relay's events go, or come from where it reads a broker, without secrets. It is written at the first start,
-- and a start with another one is refused. Empty: not known yet.
ALTER TABLE dovetail.reader ADD COLUMN target text NOT NULL DEFAULT '';

-- The term of the lease, in microseconds. A relay that waits takes the lease when it was not renewed for that long. It
-- counts by its own steady clock. 0: not known.
ALTER TABLE dovetail.reader ADD COLUMN lease_term bigint NOT NULL DEFAULT 0;

-- What each lane does now, as its process last said it: for people, so a crash of the server may lose the last word.
-- True as long as that process holds the lane's lease; without a lease (epoch -1, or one that has run out) until
-- `expires`. The process is what stands before the '#' of the owner.
CREATE TABLE dovetail.relay_state (
  relay      text COLLATE "C" NOT NULL,
  lane       int NOT NULL,
  epoch      bigint NOT NULL,
  owner      text NOT NULL,
  state      text NOT NULL CHECK (state IN ('standby', 'delivering', 'backing_off', 'halted')),
  since      timestamptz NOT NULL,
  last_error text NOT NULL DEFAULT '',
  next_try   timestamptz,   -- null: there is nothing to try
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires    timestamptz NOT NULL,
  PRIMARY KEY (relay, lane)
) WITH (fillfactor = 50);

-- What was pending in a table of its own when the relay last counted. Only the relay knows its mapping.
CREATE TABLE dovetail.mapped_backlog (
  relay       text COLLATE "C" NOT NULL,
  lane        int NOT NULL,
  pending     bigint,        -- null: the table is too large to be counted
  oldest_at   timestamptz,   -- null: nothing is pending, or the table has no time
  measured_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (relay, lane)
) WITH (fillfactor = 50);

-- The lag of each lane: how many events are before it, and how old the oldest is. Of a table of its own it is what the
-- relay last counted; when no relay runs, the lag grows from then on, because nobody knows what came since. What is
-- pending in a broker only the broker knows: null. `state` is 'stopped' when no relay runs.
CREATE OR REPLACE VIEW dovetail.lag AS
SELECT r.relay, r.lane, split_part(r.owner, '@', 1) AS owner, h.held,
       CASE WHEN NOT r.mapped THEN w.pending ELSE b.pending END AS pending,
       CASE WHEN NOT r.mapped THEN w.oldest_at ELSE b.oldest_at END AS oldest_at,
       CASE WHEN NOT r.mapped THEN coalesce(clock_timestamp() - w.oldest_at, '0')
            WHEN b.oldest_at IS NOT NULL THEN clock_timestamp() - b.oldest_at
            WHEN NOT h.held THEN clock_timestamp() - b.measured_at
            WHEN b.pending = 0 THEN '0' END AS lag,
       CASE WHEN h.held AND (s.epoch = r.epoch OR split_part(s.owner, '#', 1) = split_part(r.owner, '#', 1)) THEN s.state
            WHEN h.held THEN 'unknown'
            WHEN s.expires > clock_timestamp() THEN s.state
            ELSE 'stopped' END AS state,
       s.since AS state_since, s.last_error, s.next_try
FROM dovetail.reader AS r
CROSS JOIN LATERAL (
  SELECT r.owner <> '' AND r.expires > clock_timestamp() AND (r.lease_term = 0
    OR r.expires <= clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval '1 microsecond') AS held) AS h
LEFT JOIN dovetail.relay_state AS s ON s.relay = r.relay AND s.lane = r.lane
LEFT JOIN dovetail.mapped_backlog AS b ON b.relay = r.relay AND b.lane = r.lane AND r.mapped AND NOT r.outside
CROSS JOIN LATERAL (
  SELECT count(*) AS pending, min(o.created_at) AS oldest_at
  FROM dovetail.outbox AS o
  WHERE NOT r.mapped AND (o.xid >= pg_snapshot_xmax(r.prev) OR o.xid = ANY (ARRAY(SELECT pg_snapshot_xip(r.prev))))
    AND dovetail.slot(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
    AND NOT (r.now IS NOT NULL AND o.seq <= r.seq AND pg_visible_in_snapshot(o.xid, r.now))) AS w;

-- Lets the relay go on with another target, and returns the one before. Not while it runs: it would go on with the old
-- one. Whoever runs it all the same, because a clock was set, is fenced by the epoch.
CREATE FUNCTION dovetail.retarget_relay(relay text, target text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  before text;
BEGIN
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'another target needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the relay gets another target';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('dovetail.reader', 0));
  SELECT r.target INTO before FROM dovetail.reader AS r WHERE r.relay = retarget_relay.relay ORDER BY r.lane LIMIT 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no relay "%" in this database', relay
      USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
  END IF;
  IF EXISTS (SELECT FROM dovetail.reader AS r
             WHERE r.relay = retarget_relay.relay AND r.owner <> '' AND r.expires > clock_timestamp()
               AND (r.lease_term = 0
                 OR r.expires <= clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval '1 microsecond')) THEN
    RAISE EXCEPTION 'the relay "%" runs, and would go on with its old target', relay
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'stop every process that runs it, then try again';
  END IF;
  UPDATE dovetail.reader AS r SET target = retarget_relay.target, owner = '', epoch = r.epoch + 1
    WHERE r.relay = retarget_relay.relay;
  INSERT INTO dovetail.audit (what, relay, subject, reason)
  VALUES ('retarget', relay, left(before || ' -> ' || target, 2000), left(reason, 2000));
  RETURN before;
END
$$;
REVOKE ALL ON FUNCTION dovetail.retarget_relay(text, text, text) FROM PUBLIC;

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

-- Of a relay that serves a table of its own: which row the event is, where the event id does not tell, and which state
-- that row carries. What differs from `state` is still to be marked. Null: there is no such row, or nobody looked yet.
ALTER TABLE dovetail.parked ADD COLUMN row_id text COLLATE "C", ADD COLUMN marked text;
CREATE INDEX parked_unmarked ON dovetail.parked (relay) WHERE marked <> state;

-- What every broker takes as it comes, with headers and attributes. A limit that somebody chose stays.
ALTER TABLE dovetail.outbox_limit ALTER COLUMN payload_bytes_max SET DEFAULT 1024000;
UPDATE dovetail.outbox_limit SET payload_bytes_max = 1024000 WHERE payload_bytes_max = 1048576;
