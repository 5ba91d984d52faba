-- Version 13: what waits is found without reading what does not. Programs of version 12 work on.

-- Events that wait for their time are listed in the order in which they were published.
CREATE INDEX delayed_number ON dovetail.delayed (number);

-- The lag of each lane, as before. Pages of the index on (xid, seq) are walked from the lane's snapshot on, because the
-- planner cannot know how little lies behind a snapshot, and would read whole partitions for it. Small pages cost so little
-- that the server does not compile the query first.
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
  WITH RECURSIVE page AS (
    SELECT pg_snapshot_xmax(r.window_start) AS last_xid, -9223372036854775808 AS last_seq, 0::bigint AS pending,
           NULL::timestamptz AS oldest_at
    WHERE r.source = 'outbox'
    UNION ALL
    SELECT next.last_xid, next.last_seq, next.pending, next.oldest_at
    FROM page CROSS JOIN LATERAL (
      SELECT (array_agg(o.xid ORDER BY o.xid DESC, o.seq DESC))[1] AS last_xid,
             (array_agg(o.seq ORDER BY o.xid DESC, o.seq DESC))[1] AS last_seq,
             count(*) FILTER (WHERE o.is_pending) AS pending, min(o.created_at) FILTER (WHERE o.is_pending) AS oldest_at
      FROM (
        SELECT e.xid, e.seq, e.created_at,
               dovetail.bucket(e.aggregate_type, e.aggregate_id, e.id) * r.lanes / 256 = r.lane
               AND NOT (r.window_end IS NOT NULL AND e.seq <= r.window_seq
                        AND pg_visible_in_snapshot(e.xid, r.window_end)) AS is_pending
        FROM dovetail.outbox AS e
        WHERE (e.xid, e.seq) > (page.last_xid, page.last_seq)
        ORDER BY e.xid, e.seq LIMIT 100) AS o) AS next
    WHERE next.last_xid IS NOT NULL)
  SELECT sum(one.pending)::bigint AS pending, min(one.oldest_at) AS oldest_at
  FROM (
    SELECT page.pending, page.oldest_at FROM page
    UNION ALL
    -- Those of the transactions that were open then.
    SELECT late.pending, late.oldest_at
    FROM unnest(ARRAY(SELECT pg_snapshot_xip(r.window_start))) AS ended (xid) CROSS JOIN LATERAL (
      SELECT count(*) AS pending, min(o.created_at) AS oldest_at
      FROM dovetail.outbox AS o
      WHERE o.xid = ended.xid
        AND dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
        AND NOT (r.window_end IS NOT NULL AND o.seq <= r.window_seq AND pg_visible_in_snapshot(o.xid, r.window_end))) AS late
    WHERE r.source = 'outbox') AS one) AS w;

-- Whom the console refused a request for lack of a role. Who may not write must not fill a database by asking, so only the
-- last 1,000 are kept.
CREATE INDEX audit_refused ON dovetail.audit (number) WHERE what = 'refused';
CREATE FUNCTION dovetail.note_refusal(request text, times bigint, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO dovetail.audit (what, subject, events, reason)
  VALUES ('refused', left(request, 2000), times, left(dovetail.check_reason(reason), 2000));
  DELETE FROM dovetail.audit AS a WHERE a.what = 'refused' AND a.number <= (
    SELECT b.number FROM dovetail.audit AS b WHERE b.what = 'refused' ORDER BY b.number DESC OFFSET 1000 LIMIT 1);
END
$$;
REVOKE ALL ON FUNCTION dovetail.note_refusal(text, bigint, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 13;
