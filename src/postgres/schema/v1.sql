-- Version 1 of dovetail's tables in a PostgreSQL database. Needs PostgreSQL 13 or newer. Whoever runs this owns it.

CREATE SCHEMA dovetail;
COMMENT ON SCHEMA dovetail IS 'Transactional outbox: see dovetail.publish()';

CREATE TABLE dovetail.schema_version (
  only_row        int PRIMARY KEY CHECK (only_row = 1),
  version         int NOT NULL,
  compatible_from int NOT NULL   -- programs that were made for this version or a later one may work on it
);
INSERT INTO dovetail.schema_version (only_row, version, compatible_from) VALUES (1, 1, 1);

-- A UUID of version 7, which begins with its time.
CREATE FUNCTION dovetail.uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT pg_catalog.encode(
    pg_catalog.set_bit(
      pg_catalog.set_bit(
        pg_catalog.overlay(
          pg_catalog.uuid_send(pg_catalog.gen_random_uuid()),
          pg_catalog.substring(
            pg_catalog.int8send((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::bigint), 3),
          1, 6),
        52, 1),
      53, 1),
    'hex')::uuid
$$;

-- What every broker can carry: names are tokens, values are texts without control characters.
CREATE FUNCTION dovetail.headers_are_valid(headers text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT octet_length(headers) <= 16384
     AND jsonb_typeof(headers::jsonb) = 'object'
     AND NOT EXISTS (
       SELECT FROM jsonb_each(CASE WHEN jsonb_typeof(headers::jsonb) = 'object' THEN headers::jsonb END) AS each
       WHERE jsonb_typeof(each.value) <> 'string'
          OR each.key !~ '^[A-Za-z0-9._-]{1,255}$'
          OR each.value #>> '{}' ~ '[\x01-\x08\x0a-\x1f\x7f]')
$$;

-- The limit that can be set; small payloads need no look at it.
CREATE FUNCTION dovetail.payload_fits(bytes int) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bytes_max bigint := (SELECT payload_bytes_max FROM dovetail.outbox_limit);
BEGIN
  IF bytes > bytes_max THEN
    RAISE EXCEPTION 'the payload has % bytes, the limit is %', bytes, bytes_max
      USING ERRCODE = 'invalid_parameter_value', HINT = 'check dovetail.outbox_limit, or send a reference instead';
  END IF;
  RETURN true;
END
$$;

-- What an event may consist of. Domains, because the server keeps their checks ready: constraints, generated columns and
-- the conditions of triggers are parsed anew for each INSERT. A name is what the error says.
CREATE DOMAIN dovetail.topic AS text COLLATE "C"
  CONSTRAINT "has at most 255 bytes" CHECK (octet_length(VALUE) <= 255);
CREATE DOMAIN dovetail.aggregate_type AS text COLLATE "C"
  CONSTRAINT "has 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN dovetail.aggregate_id AS text COLLATE "C"
  CONSTRAINT "has at most 1024 bytes" CHECK (octet_length(VALUE) <= 1024);
CREATE DOMAIN dovetail.event_type AS text COLLATE "C"
  CONSTRAINT "has 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN dovetail.content_type AS text COLLATE "C"
  CONSTRAINT "has 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN dovetail.headers AS text
  CONSTRAINT "16384 bytes at most" CHECK (octet_length(VALUE) <= 16384)
  CONSTRAINT "are a flat object: names of A-Z a-z 0-9 . _ - and plain texts" CHECK (
    VALUE = '' OR (octet_length(VALUE) <= 4096 AND VALUE ~
      '^\{"[A-Za-z0-9._-]{1,64}": ?"[^"\\\x01-\x1f\x7f]*"(, ?"[A-Za-z0-9._-]{1,64}": ?"[^"\\\x01-\x1f\x7f]*")*\}$')
    OR dovetail.headers_are_valid(VALUE));
CREATE DOMAIN dovetail.payload AS bytea
  CONSTRAINT "has a byte at least" CHECK (octet_length(VALUE) > 0)
  CONSTRAINT "has at most the bytes that outbox_limit says" CHECK (
    octet_length(VALUE) <= 65536 OR dovetail.payload_fits(octet_length(VALUE)));

-- CACHE 1: numbers taken ahead by a session would not follow the order of locks.
CREATE SEQUENCE dovetail.outbox_seq AS bigint CACHE 1;

-- Spreads keys over the lanes of a relay: 256 slots. Events without a key go anywhere.
CREATE FUNCTION dovetail.slot(aggregate_type text, aggregate_id text, id uuid) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN aggregate_id = '' THEN pg_catalog.get_byte(pg_catalog.uuid_send(id), 15)
              ELSE (pg_catalog.hashtextextended(aggregate_id, pg_catalog.hashtextextended(aggregate_type, 0)) & 255)::int
         END
$$;

-- What this service publishes. Rows are never changed; whole partitions are dropped. A plain INSERT from any language
-- is a publish, too:
--   INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', '17', 'placed', '{}');
-- `seq` is the order along a key, `xid` tells when a row became visible.
CREATE TABLE dovetail.outbox (
  id                uuid NOT NULL DEFAULT dovetail.uuid7() PRIMARY KEY,
  seq               bigint NOT NULL DEFAULT nextval('dovetail.outbox_seq'),
  xid               xid8 NOT NULL DEFAULT pg_current_xact_id(),
  topic             dovetail.topic NOT NULL DEFAULT '',
  aggregate_type    dovetail.aggregate_type NOT NULL,
  aggregate_id      dovetail.aggregate_id NOT NULL DEFAULT '',
  type              dovetail.event_type NOT NULL,
  content_type      dovetail.content_type NOT NULL DEFAULT 'application/json',
  headers           dovetail.headers NOT NULL DEFAULT '',
  payload           dovetail.payload NOT NULL,
  aggregate_version bigint NOT NULL DEFAULT 0,
  created_at        timestamptz NOT NULL DEFAULT clock_timestamp()
) PARTITION BY RANGE (id);
CREATE INDEX outbox_xid ON dovetail.outbox (xid, seq);
CREATE INDEX outbox_seq_index ON dovetail.outbox (seq);
-- Takes ids that are not of version 7, and times for which no partition was made.
CREATE TABLE dovetail.outbox_default PARTITION OF dovetail.outbox DEFAULT;

-- Events that are to go out later wait here; a relay moves them into the outbox when they are due, so that they are
-- ordered from then on.
CREATE TABLE dovetail.delayed (
  id                uuid PRIMARY KEY,
  number            bigint GENERATED ALWAYS AS IDENTITY,
  topic             dovetail.topic NOT NULL,
  aggregate_type    dovetail.aggregate_type NOT NULL,
  aggregate_id      dovetail.aggregate_id NOT NULL,
  type              dovetail.event_type NOT NULL,
  content_type      dovetail.content_type NOT NULL,
  headers           dovetail.headers NOT NULL,
  payload           dovetail.payload NOT NULL,
  aggregate_version bigint NOT NULL,
  created_at        timestamptz NOT NULL,
  deliver_at        timestamptz NOT NULL
);
CREATE INDEX delayed_due ON dovetail.delayed (deliver_at, number);

-- One row for each lane of each relay. Everything that was visible in `prev` is delivered or parked; when `now` is set,
-- so is everything up to `seq` of what is visible in `now` and was not in `prev`. Snapshots mean something only in the
-- cluster that made them, hence `system_identifier`. `expires` is by the database's clock.
CREATE TABLE dovetail.reader (
  relay             text COLLATE "C" NOT NULL CHECK (octet_length(relay) BETWEEN 1 AND 255),
  lane              int NOT NULL CHECK (lane >= 0 AND lane < lanes),
  lanes             int NOT NULL CHECK (lanes BETWEEN 1 AND 256),
  mapped            boolean NOT NULL DEFAULT false,   -- serves another table than the outbox
  prev              pg_snapshot NOT NULL DEFAULT '1:1:',
  now               pg_snapshot,
  seq               bigint NOT NULL DEFAULT 0,
  passed_seq        bigint NOT NULL DEFAULT 0,        -- about how far it is; for estimates only
  system_identifier bigint NOT NULL DEFAULT 0,
  owner             text NOT NULL DEFAULT '',
  epoch             bigint NOT NULL DEFAULT 0,
  expires           timestamptz NOT NULL DEFAULT '-infinity',
  settled_total     bigint NOT NULL DEFAULT 0,
  parked_total      bigint NOT NULL DEFAULT 0,
  sample_at         timestamptz NOT NULL DEFAULT '-infinity',  -- two samples, some seconds apart, give the rate
  sample_total      bigint NOT NULL DEFAULT 0,
  previous_at       timestamptz NOT NULL DEFAULT '-infinity',
  previous_total    bigint NOT NULL DEFAULT 0,
  updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (relay, lane)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Processes that share the lanes of a relay.
CREATE TABLE dovetail.relay_process (
  relay   text COLLATE "C" NOT NULL,
  owner   text COLLATE "C" NOT NULL,
  expires timestamptz NOT NULL,
  PRIMARY KEY (relay, owner)
) WITH (fillfactor = 20);

-- Events that a relay could not deliver, and what waits behind them; later their history. `at_head` is true for an
-- unfinished event with nothing unfinished before it on its key.
CREATE TABLE dovetail.parked (
  number            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  relay             text COLLATE "C" NOT NULL,
  id                uuid NOT NULL,
  slot              int NOT NULL GENERATED ALWAYS AS (dovetail.slot(aggregate_type, aggregate_id, id)) STORED,
  position          bigint NOT NULL,
  topic             text COLLATE "C" NOT NULL,
  aggregate_type    text COLLATE "C" NOT NULL,
  aggregate_id      text COLLATE "C" NOT NULL,
  type              text COLLATE "C" NOT NULL,
  content_type      text COLLATE "C" NOT NULL,
  headers           text NOT NULL,
  payload           bytea NOT NULL,
  aggregate_version bigint NOT NULL,
  created_at        timestamptz NOT NULL,
  state             text NOT NULL CHECK (state IN ('parked', 'waiting', 'delivered', 'discarded')),
  at_head           boolean NOT NULL DEFAULT false,
  attempts          int NOT NULL,
  reason            text NOT NULL,
  note              text NOT NULL DEFAULT '',
  parked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  retry_at          timestamptz NOT NULL,
  finished_at       timestamptz,   -- null: unfinished
  UNIQUE (relay, id)
);
CREATE INDEX parked_key ON dovetail.parked (relay, aggregate_type, aggregate_id, position) WHERE finished_at IS NULL;
CREATE INDEX parked_due ON dovetail.parked (relay, retry_at) WHERE at_head AND state = 'waiting';
CREATE INDEX parked_head ON dovetail.parked (relay, aggregate_type, aggregate_id) WHERE at_head;
CREATE INDEX parked_finished ON dovetail.parked (finished_at) WHERE finished_at IS NOT NULL;

-- Call it after rows of these keys were added or finished, in the same transaction: marks the first unfinished row of
-- each. A key without aggregate_id is none.
CREATE FUNCTION dovetail.refresh_heads(of_relay text, types text[], ids text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  -- A relay that parks behind a head and an operator who discards that head wait for each other here, so that one of
  -- them sees what the other did.
  SELECT pg_advisory_xact_lock(hashtextextended('dovetail.parked ' || of_relay, 0));
  WITH key AS (
    SELECT DISTINCT k.type COLLATE "C" AS type, k.id COLLATE "C" AS id FROM unnest(types, ids) AS k (type, id)
    WHERE k.id <> ''),
  head AS (
    SELECT first.number FROM key CROSS JOIN LATERAL (
      SELECT p.number FROM dovetail.parked AS p
      WHERE p.relay = of_relay AND p.aggregate_type = key.type AND p.aggregate_id = key.id AND p.finished_at IS NULL
      ORDER BY p.position LIMIT 1) AS first),
  cleared AS (
    UPDATE dovetail.parked AS p SET at_head = false FROM key
    WHERE p.relay = of_relay AND p.aggregate_type = key.type AND p.aggregate_id = key.id AND p.at_head
      AND p.number NOT IN (SELECT number FROM head))
  UPDATE dovetail.parked AS p SET at_head = true FROM head WHERE p.number = head.number AND NOT p.at_head
$$;

-- What operators did, and why.
CREATE TABLE dovetail.audit (
  number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  who     text NOT NULL DEFAULT session_user,
  what    text NOT NULL,
  relay   text NOT NULL DEFAULT '',
  subject text NOT NULL DEFAULT '',   -- an event id, a key, or a filter
  events  bigint NOT NULL DEFAULT 0,
  reason  text NOT NULL DEFAULT ''
);

-- Limits of publishing; null: none. Payloads of 64 KiB are always taken, so that small ones need no look here. The
-- backlog's is set by dovetail.set_backlog_limit().
CREATE TABLE dovetail.outbox_limit (
  only_row           int PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
  payload_bytes_max  bigint DEFAULT 1048576 CHECK (payload_bytes_max >= 65536),
  backlog_events_max bigint CHECK (backlog_events_max > 0)
);
INSERT INTO dovetail.outbox_limit DEFAULT VALUES;

-- About how many events the slowest relay has still before it; counts numbers, of which rollbacks leave some unused.
CREATE FUNCTION dovetail.backlog() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT greatest(0, (SELECT last_value FROM dovetail.outbox_seq) -
                     coalesce((SELECT min(passed_seq) FROM dovetail.reader WHERE NOT mapped), 0))
$$;

CREATE FUNCTION dovetail.check_backlog() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  allowed bigint := (SELECT backlog_events_max FROM dovetail.outbox_limit);
  there   bigint := dovetail.backlog();
BEGIN
  IF there >= allowed THEN
    RAISE EXCEPTION 'the outbox is full: about % events wait, the limit is %', there, allowed
      USING ERRCODE = 'configuration_limit_exceeded',
            HINT = 'check that every relay runs and delivers, or raise dovetail.set_backlog_limit()';
  END IF;
  RETURN NULL;
END
$$;

-- Makes publishing fail while more than so many events wait; null removes the limit. Costs nothing when there is none.
CREATE FUNCTION dovetail.set_backlog_limit(events_max bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dovetail.outbox_limit SET backlog_events_max = events_max;
  DROP TRIGGER IF EXISTS check_backlog ON dovetail.outbox;
  IF events_max IS NOT NULL THEN
    CREATE TRIGGER check_backlog BEFORE INSERT ON dovetail.outbox
      FOR EACH STATEMENT EXECUTE FUNCTION dovetail.check_backlog();
  END IF;
END
$$;

-- Moves at most so many due events into the outbox, in the order in which they were due. One mover at a time keeps
-- that order; the others have nothing to do.
CREATE FUNCTION dovetail.release_delayed(events_max int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moved bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('dovetail.delayed', 0)) THEN
    RETURN 0;
  END IF;
  WITH due AS (
    DELETE FROM dovetail.delayed WHERE id IN (
      SELECT id FROM dovetail.delayed WHERE deliver_at <= clock_timestamp() ORDER BY deliver_at, number LIMIT events_max)
    RETURNING *)
  INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                               aggregate_version, created_at)
  SELECT id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version, created_at
  FROM due ORDER BY deliver_at, number
  ON CONFLICT (id) DO NOTHING;
  GET DIAGNOSTICS moved = ROW_COUNT;
  RETURN moved;
END
$$;

-- After a restore into another cluster rows carry numbers of transactions that are still to come here, and would look
-- new for ever. This gives at most so many of them the number of this transaction.
CREATE FUNCTION dovetail.adopt_foreign_rows(rows_max int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  adopted bigint;
BEGIN
  UPDATE dovetail.outbox SET xid = pg_current_xact_id() WHERE id IN (
    SELECT id FROM dovetail.outbox WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY xid, seq LIMIT rows_max);
  GET DIAGNOSTICS adopted = ROW_COUNT;
  RETURN adopted;
END
$$;

-- Fails unless the event of this id, in the outbox or delayed, has this content. A payload is never shown.
CREATE FUNCTION dovetail.check_published(
  event_id uuid, event_topic text, event_aggregate_type text, event_aggregate_id text, event_type text,
  event_content_type text, event_headers text, event_payload bytea, event_aggregate_version bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM (
    SELECT id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version
    FROM dovetail.outbox WHERE id = event_id
    UNION ALL
    SELECT id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version
    FROM dovetail.delayed WHERE id = event_id) AS e
  WHERE (e.topic, e.aggregate_type, e.aggregate_id, e.type, e.content_type, e.payload, e.aggregate_version) =
        (event_topic, event_aggregate_type, event_aggregate_id, event_type, event_content_type, event_payload,
         event_aggregate_version)
    AND nullif(e.headers, '')::jsonb IS NOT DISTINCT FROM nullif(event_headers, '')::jsonb;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the event id % was published already with other content', event_id
      USING ERRCODE = 'unique_violation', HINT = 'give each event an id of its own';
  END IF;
END
$$;

-- Lays an event by until its time, unless it is there already.
CREATE FUNCTION dovetail.delay(
  event_id uuid, event_topic text, event_aggregate_type text, event_aggregate_id text, event_type text,
  event_content_type text, event_headers text, event_payload bytea, event_aggregate_version bigint,
  event_deliver_at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT isfinite(event_deliver_at) THEN
    RAISE EXCEPTION 'deliver_at is infinity, which never comes'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'give a time, or leave it out';
  END IF;
  IF NOT EXISTS (SELECT FROM dovetail.outbox AS o WHERE o.id = event_id) THEN
    INSERT INTO dovetail.delayed (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                                  aggregate_version, created_at, deliver_at)
    VALUES (event_id, event_topic, event_aggregate_type, event_aggregate_id, event_type, event_content_type,
            event_headers, event_payload, event_aggregate_version, clock_timestamp(), event_deliver_at)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM dovetail.check_published(event_id, event_topic, event_aggregate_type, event_aggregate_id, event_type,
                                   event_content_type, event_headers, event_payload, event_aggregate_version);
END
$$;

-- What all ways of publishing have in common. Runs with the caller's rights and settings, which would cost to change. An
-- id made here cannot be there already, and the INSERT that expects one would cost more.
CREATE FUNCTION dovetail.add_event(
  id uuid, topic text, aggregate_type text, aggregate_id text, type text, content_type text, headers text, payload bytea,
  aggregate_version bigint, deliver_at timestamptz) RETURNS uuid
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  is_new boolean := id IS NULL;
BEGIN
  IF is_new THEN
    id := dovetail.uuid7();
  END IF;
  IF deliver_at > pg_catalog.clock_timestamp() THEN
    PERFORM dovetail.delay(id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                           aggregate_version, deliver_at);
  ELSIF is_new THEN
    INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                                 aggregate_version)
    VALUES (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version);
  ELSE
    INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                                 aggregate_version)
    VALUES (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      PERFORM dovetail.check_published(id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                                       aggregate_version);
    END IF;
  END IF;
  RETURN id;
END
$$;

-- Publishes an event in the caller's transaction, and returns its id. The same id with the same content is accepted
-- once. The payload goes out byte for byte. These three are simple enough to be inlined by the planner.
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), payload,
                            coalesce(aggregate_version, 0), deliver_at)
$$;

CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), pg_catalog.convert_to(payload::text, 'UTF8'),
                            coalesce(aggregate_version, 0), deliver_at)
$$;

-- A text is taken for JSON; say content_type => 'text/plain' where it is not.
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), pg_catalog.convert_to(payload, 'UTF8'),
                            coalesce(aggregate_version, 0), deliver_at)
$$;

-- How a relay reads. These are functions so that their plans are kept, and so that they are planned with settings of
-- their own: with statistics that are missing or old the planner would sort the whole table for every page.

-- What is visible now to lanes of these slots and was not visible in the snapshot with this xmax and xip. The first row,
-- without an id, carries: in seq how many events there are, in topic the snapshot of this statement, in aggregate_type
-- the history of the server, in aggregate_version the number of the sequence. The events follow, in no order, when there
-- are at most events_max with at most bytes_max. The history changes when a standby takes over: it may not have what was
-- read from its predecessor, and uses the same numbers of transactions again.
CREATE FUNCTION dovetail.read_window(
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
         NULL, NULL, NULL, NULL, NULL::bytea, (SELECT last_value FROM dovetail.outbox_seq), NULL::timestamptz
  FROM total
  UNION ALL
  SELECT part.* FROM part, total WHERE total.events <= events_max AND total.bytes <= bytes_max;
END
$$;

-- The first and the last number of what became visible between two snapshots.
CREATE FUNCTION dovetail.window_bounds(from_xmax xid8, from_xip xid8[], to_xmax xid8, OUT first bigint, OUT last bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
BEGIN
  -- Adding 0 keeps the planner from walking the index on seq, where the window may lie at the far end.
  SELECT coalesce(min(part.least), 0), coalesce(max(part.most), 0) INTO first, last FROM (
    SELECT min(o.seq + 0) AS least, max(o.seq + 0) AS most FROM dovetail.outbox AS o
    WHERE o.xid >= from_xmax AND o.xid < to_xmax
    UNION ALL
    SELECT min(o.seq + 0), max(o.seq + 0) FROM dovetail.outbox AS o WHERE o.xid = ANY (from_xip)) AS part;
END
$$;

-- For people: what became of each event, as each relay sees it.
CREATE VIEW dovetail.events AS
SELECT o.seq, o.id, r.relay,
       CASE WHEN p.state IS NOT NULL THEN p.state
            WHEN r.relay IS NULL THEN 'pending'
            WHEN pg_visible_in_snapshot(o.xid, r.prev) THEN 'delivered'
            WHEN r.now IS NOT NULL AND o.seq <= r.seq AND pg_visible_in_snapshot(o.xid, r.now) THEN 'delivered'
            ELSE 'pending' END AS state,
       o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, octet_length(o.payload) AS payload_length,
       o.aggregate_version, o.created_at
FROM dovetail.outbox AS o
LEFT JOIN dovetail.reader AS r ON NOT r.mapped AND dovetail.slot(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
LEFT JOIN dovetail.parked AS p ON p.relay = r.relay AND p.id = o.id;

-- The lag of each lane: how many events are before it, and how old the oldest is.
CREATE VIEW dovetail.lag AS
SELECT r.relay, r.lane, r.owner, r.expires > clock_timestamp() AS held, w.pending, w.oldest_at,
       coalesce(clock_timestamp() - w.oldest_at, '0') AS lag
FROM dovetail.reader AS r
CROSS JOIN LATERAL (
  SELECT count(*) AS pending, min(o.created_at) AS oldest_at
  FROM dovetail.outbox AS o
  WHERE (o.xid >= pg_snapshot_xmax(r.prev) OR o.xid = ANY (ARRAY(SELECT pg_snapshot_xip(r.prev))))
    AND dovetail.slot(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane
    AND NOT (r.now IS NOT NULL AND o.seq <= r.seq AND pg_visible_in_snapshot(o.xid, r.now))) AS w
WHERE NOT r.mapped;

REVOKE ALL ON FUNCTION dovetail.read_window(xid8, xid8[], int, int, bigint, bigint),
  dovetail.window_bounds(xid8, xid8[], xid8), dovetail.backlog(), dovetail.check_backlog(), dovetail.set_backlog_limit(bigint),
  dovetail.refresh_heads(text, text[], text[]), dovetail.release_delayed(int), dovetail.adopt_foreign_rows(int),
  dovetail.check_published(uuid, text, text, text, text, text, text, bytea, bigint),
  dovetail.delay(uuid, text, text, text, text, text, text, bytea, bigint, timestamptz),
  dovetail.add_event(uuid, text, text, text, text, text, text, bytea, bigint, timestamptz),
  dovetail.publish(text, text, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, text, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, text, text, text, jsonb, text, uuid, bigint, timestamptz, text) FROM PUBLIC;
