-- Version 3 of dovetail's tables in a PostgreSQL database: claims, and the inbox as a queue.

-- Part 1: claims, for services that read events by a loop of their own.
--
-- With the effect in this database, the claim belongs into its transaction, and needs no lease:
--   BEGIN;
--   SELECT dovetail.claim('stock', '0190...');            -- 'first': do the work; 'duplicate': leave it alone
--   UPDATE ...;
--   COMMIT;                                               -- and acknowledge the event where it came from
-- With the effect elsewhere, a claim is held for some time, and each call is a transaction of its own:
--   SELECT * FROM dovetail.claim('mail', '0190...', '30 s');       -- state, epoch, attempts
--   SELECT dovetail.complete('mail', '0190...', epoch);            -- or dovetail.fail(...), or dovetail.release(...)

-- Numbers every claim, so that one which was lost is told from the one that took its place. CACHE 1: later claims have
-- higher numbers.
CREATE SEQUENCE dovetail.claim_epoch AS bigint CACHE 1;

-- Claims that are held, or were given back; one that is completed becomes a row of the inbox. `expires` is by the
-- database's clock. One that nobody wants any more is deleted with the attempts of its time: no epoch comes twice, so
-- that who held it has lost it.
CREATE TABLE dovetail.claim (
  event_id    uuid NOT NULL,
  consumer_id int NOT NULL,
  epoch       bigint NOT NULL,
  attempts    int NOT NULL,
  expires     timestamptz NOT NULL,
  PRIMARY KEY (event_id, consumer_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The number of a consumer, which gets one at its first use.
CREATE FUNCTION dovetail.consumer_id(consumer text) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_id int := (SELECT c.id FROM dovetail.consumer AS c WHERE c.name = consumer);
BEGIN
  IF found_id IS NOT NULL THEN
    RETURN found_id;
  END IF;
  IF consumer IS NULL OR octet_length(consumer) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'the name of a consumer has 1 to 255 bytes'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'give each service that applies events a name of its own';
  END IF;
  INSERT INTO dovetail.consumer (name) VALUES (consumer) ON CONFLICT (name) DO NOTHING RETURNING id INTO found_id;
  IF found_id IS NULL THEN
    SELECT c.id INTO STRICT found_id FROM dovetail.consumer AS c WHERE c.name = consumer;
  END IF;
  RETURN found_id;
END
$$;

-- True for an event without a row, which may have had one: see dovetail.inbox_state. `created_at` counts where the id has no
-- time, and may be null. Call it in a statement after the one that inserted the row.
CREATE FUNCTION dovetail.is_forgotten(of_consumer int, id uuid, created_at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := (SELECT s.forgotten_before FROM dovetail.inbox_state AS s);
BEGIN
  RETURN before > '-infinity'
     AND coalesce(coalesce(dovetail.time_of(id), nullif(created_at, 'epoch')) < before, false)
     AND (SELECT c.created_at < before FROM dovetail.consumer AS c WHERE c.id = of_consumer);
END
$$;

-- What all functions say when something is wrong with how they were called.
CREATE FUNCTION dovetail.check_lease(lease interval) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF lease IS NULL OR lease <= '0' OR lease > '7 days' THEN
    RAISE EXCEPTION 'a lease of % is not possible', coalesce(lease::text, 'null')
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'give a time above 0 and up to 7 days, longer than the work takes: ''30 seconds''';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'this cannot be done in a transaction of isolation level %', current_setting('transaction_isolation')
      USING ERRCODE = 'invalid_transaction_state',
            HINT = 'call it in a transaction of its own with READ COMMITTED: it must see what others did a moment ago';
  END IF;
END
$$;

CREATE FUNCTION dovetail.raise_lost(consumer text, id uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'consumer "%" does not hold event % any more', consumer, id
    USING ERRCODE = 'DT001',
          DETAIL = 'The lease ended and another worker has the event, or it is finished: completed, given back or discarded.',
          HINT = 'roll back, so that nothing happens twice; if this comes often, ask for a longer lease or for fewer events';
END
$$;

CREATE FUNCTION dovetail.raise_forgotten(consumer text, id uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'event % is older than what the inbox remembers: consumer "%" may have applied it', id, consumer
    USING ERRCODE = 'DT002',
          HINT = 'find out whether it was applied; a longer retention.inbox than the time of redelivery avoids this';
END
$$;

-- In the caller's transaction: waits for another that is claiming the same event.
CREATE FUNCTION dovetail.claim(consumer text, id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
BEGIN
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
COMMENT ON FUNCTION dovetail.claim(text, uuid) IS
'Says whether this consumer applies the event for the first time. Call it first in the transaction of the effect:
BEGIN; SELECT dovetail.claim(''stock'', $1); -- ''first'': do the work, ''duplicate'': do nothing
COMMIT; and acknowledge the event afterwards, in both cases. Never call it in a transaction of its own: after a crash the
event would count as applied.';

-- One claim with a lease; `created_at` may be null. Where a kind of plan is switched off, one that is needed all the same
-- looks so costly that the server would compile it first: hence jit = off, here and below.
CREATE FUNCTION dovetail.claim_event(
  of_consumer int, id uuid, created_at timestamptz, lease interval,
  OUT state text, OUT epoch bigint, OUT attempts int)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  IF EXISTS (SELECT FROM dovetail.inbox AS i WHERE i.event_id = id AND i.consumer_id = of_consumer) THEN
    state := 'duplicate';
    RETURN;
  END IF;
  INSERT INTO dovetail.claim AS c (event_id, consumer_id, epoch, attempts, expires)
  VALUES (id, of_consumer, nextval('dovetail.claim_epoch'), 1, clock_timestamp() + lease)
  ON CONFLICT (event_id, consumer_id) DO UPDATE
    SET epoch = nextval('dovetail.claim_epoch'), attempts = c.attempts + 1, expires = clock_timestamp() + lease
    WHERE c.expires <= clock_timestamp()
  RETURNING c.epoch, c.attempts INTO epoch, attempts;
  IF epoch IS NULL THEN
    state := 'in_progress';
    RETURN;
  END IF;
  -- Who completed it meanwhile deleted the row that stood in the way, and is seen only now.
  IF EXISTS (SELECT FROM dovetail.inbox AS i WHERE i.event_id = id AND i.consumer_id = of_consumer) THEN
    state := 'duplicate';
  ELSIF dovetail.is_forgotten(of_consumer, id, created_at) THEN
    state := 'forgotten';
  ELSE
    state := 'first';
    RETURN;
  END IF;
  DELETE FROM dovetail.claim AS c WHERE c.event_id = id AND c.consumer_id = of_consumer;
  epoch := NULL;
  attempts := NULL;
END
$$;

CREATE FUNCTION dovetail.claim(consumer text, id uuid, lease interval, OUT state text, OUT epoch bigint, OUT attempts int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dovetail.check_lease(lease);
  SELECT c.state, c.epoch, c.attempts INTO state, epoch, attempts
  FROM dovetail.claim_event(dovetail.consumer_id(consumer), id, NULL, lease) AS c;
  IF state = 'forgotten' THEN
    PERFORM dovetail.raise_forgotten(consumer, id);
  END IF;
END
$$;
COMMENT ON FUNCTION dovetail.claim(text, uuid, interval) IS
'Holds the event for this consumer, for an effect outside the database. In a transaction of its own:
SELECT * FROM dovetail.claim(''mail'', $1, ''30 seconds'');
state ''first'': it is yours until the lease ends; do the work, then dovetail.complete(consumer, id, epoch), or
dovetail.fail() when it did not work. ''duplicate'': it is done. ''in_progress'': another has it; ask again later, and do
not acknowledge it. `attempts` counts the claims that were not completed, with this one: give up when there are too many.
A worker that dies loses the event when the lease ends, and the next claim is ''first'' again. So the effect happens at
least once: pass the event id on as idempotency key.';

-- For programs of dovetail: many at once, one row for each different id. The order of ids keeps two callers from
-- waiting for each other.
CREATE FUNCTION dovetail.claim_many(consumer text, ids uuid[], created_ats timestamptz[], lease interval)
RETURNS TABLE (id uuid, state text, epoch bigint, attempts int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
BEGIN
  PERFORM dovetail.check_lease(lease);
  FOR id, state, epoch, attempts IN
    SELECT e.id, c.state, c.epoch, c.attempts
    FROM (SELECT DISTINCT ON (u.id) u.id, u.created_at FROM unnest(ids, created_ats) AS u (id, created_at)
          ORDER BY u.id) AS e
    CROSS JOIN LATERAL dovetail.claim_event(of_consumer, e.id, e.created_at, lease) AS c
  LOOP
    RETURN NEXT;
  END LOOP;
END
$$;

-- For programs of dovetail: completes what is still held, and returns which that was.
CREATE FUNCTION dovetail.complete_claims(consumer text, ids uuid[], epochs bigint[]) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
  one         record;
BEGIN
  FOR one IN SELECT u.id, u.epoch FROM unnest(ids, epochs) AS u (id, epoch) ORDER BY u.id LOOP
    DELETE FROM dovetail.claim AS c WHERE c.event_id = one.id AND c.consumer_id = of_consumer AND c.epoch = one.epoch;
    CONTINUE WHEN NOT FOUND;
    INSERT INTO dovetail.inbox (event_id, consumer_id) VALUES (one.id, of_consumer) ON CONFLICT DO NOTHING;
    -- Somebody applied it without a claim.
    CONTINUE WHEN NOT FOUND;
    RETURN NEXT one.id;
  END LOOP;
END
$$;

-- For programs of dovetail: gives claims back that are still held. `how`: untried, the attempt does not count; failed, it
-- does; parked, none counts any more.
CREATE FUNCTION dovetail.release_claims(consumer text, ids uuid[], epochs bigint[], how text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
  one         record;
BEGIN
  FOR one IN SELECT u.id, u.epoch FROM unnest(ids, epochs) AS u (id, epoch) ORDER BY u.id LOOP
    UPDATE dovetail.claim AS c
    SET epoch = nextval('dovetail.claim_epoch'), expires = clock_timestamp(),
        attempts = CASE how WHEN 'untried' THEN c.attempts - 1 WHEN 'failed' THEN c.attempts WHEN 'parked' THEN 0 END
    WHERE c.event_id = one.id AND c.consumer_id = of_consumer AND c.epoch = one.epoch;
  END LOOP;
END
$$;

-- Part 2: the queue, for services in any language. A consumer with a queue as its handler puts each event here once, in
-- the transaction of its inbox row; a service takes events out:
--   SELECT * FROM dovetail.receive('stock', 10);          -- in a transaction of its own
--   BEGIN; UPDATE ...; SELECT dovetail.complete('stock', id, epoch); COMMIT;                    -- for each event

-- `number` is the order along a key, and `key_hash` is null for an event without key. `waiting` is only set for a row
-- while one of the same key stands before it and sees to it that it is unset: see dovetail.receive(). `due` is when it
-- may be received: it came then, or a lease ends then, or a retry begins. `held`: a worker has it, or had it and died.
CREATE TABLE dovetail.queue (
  event_id          uuid NOT NULL,
  consumer_id       int NOT NULL,
  attempts          int NOT NULL DEFAULT 0,
  number            bigint GENERATED ALWAYS AS IDENTITY,
  key_hash          bigint,
  due               timestamptz NOT NULL DEFAULT now(),
  epoch             bigint,          -- of the worker who has it, or had it last
  parked_number     bigint,          -- not null: it needs an operator; numbered together with dovetail.parked
  parked_at         timestamptz,
  attempts_max      int NOT NULL DEFAULT 1,
  waiting           boolean NOT NULL DEFAULT false,
  held              boolean NOT NULL DEFAULT false,
  created_at        timestamptz NOT NULL,
  queued_at         timestamptz NOT NULL DEFAULT now(),
  aggregate_version bigint NOT NULL,
  reason            text NOT NULL DEFAULT '',
  topic             text COLLATE "C" NOT NULL,
  aggregate_type    text COLLATE "C" NOT NULL,
  aggregate_id      text COLLATE "C" NOT NULL,
  type              text COLLATE "C" NOT NULL,
  content_type      text COLLATE "C" NOT NULL,
  headers           jsonb NOT NULL,
  payload           bytea NOT NULL,
  PRIMARY KEY (event_id, consumer_id)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
-- Plans are kept, and often made while the table is empty, when every index looks as good as another. So each statement
-- leaves but one to choose: the others are partial, and do not fit.
CREATE INDEX queue_ready ON dovetail.queue (consumer_id, due, number) WHERE NOT waiting AND parked_number IS NULL;
CREATE INDEX queue_key ON dovetail.queue (consumer_id, key_hash, number) WHERE key_hash IS NOT NULL;
CREATE INDEX queue_parked_number ON dovetail.queue (parked_number) WHERE parked_number IS NOT NULL;

-- For programs of dovetail: adds events in the transaction of their inbox rows, in this order. Returns how many.
CREATE FUNCTION dovetail.enqueue(
  consumer text, ids uuid[], topics text[], aggregate_types text[], aggregate_ids text[], types text[],
  content_types text[], headers text[], payloads bytea[], aggregate_versions bigint[], created_ats timestamptz[])
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
  added       bigint;
BEGIN
  -- Of the events of one key only the first is offered to workers; it sees to the others, which commit with it.
  INSERT INTO dovetail.queue (
    event_id, consumer_id, key_hash, waiting, created_at, aggregate_version, topic, aggregate_type, aggregate_id, type,
    content_type, headers, payload)
  SELECT e.id, of_consumer, e.key_hash,
         e.key_hash IS NOT NULL AND row_number() OVER (PARTITION BY e.key_hash ORDER BY e.ordinal) > 1,
         e.created_at, e.aggregate_version, e.topic, e.aggregate_type, e.aggregate_id, e.type, e.content_type,
         coalesce(nullif(e.headers, ''), '{}')::jsonb, e.payload
  FROM (
    SELECT u.*, CASE WHEN u.aggregate_id <> '' THEN
                     hashtextextended(u.aggregate_id, hashtextextended(u.aggregate_type, 0)) END AS key_hash
    FROM unnest(ids, topics, aggregate_types, aggregate_ids, types, content_types, headers, payloads, aggregate_versions,
                created_ats) WITH ORDINALITY AS u (id, topic, aggregate_type, aggregate_id, type, content_type, headers,
                                                   payload, aggregate_version, created_at, ordinal)) AS e
  ORDER BY e.ordinal
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS added = ROW_COUNT;
  -- One that is still here from another time may be completed at this moment, by who does not see what follows it now.
  IF added < cardinality(ids) THEN
    UPDATE dovetail.queue AS q SET waiting = false
    WHERE q.consumer_id = of_consumer AND q.event_id = ANY (ids) AND q.waiting AND q.queued_at = now();
  END IF;
  RETURN added;
END
$$;

-- The consumer that a worker names, which must be there: a wrong name would look like an empty queue for ever.
CREATE FUNCTION dovetail.known_consumer(consumer text) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_id int := (SELECT c.id FROM dovetail.consumer AS c WHERE c.name = consumer);
BEGIN
  IF found_id IS NULL THEN
    RAISE EXCEPTION 'there is no consumer "%"', coalesce(consumer, 'null')
      USING ERRCODE = 'undefined_object', HINT = coalesce(
        'there are: ' || (SELECT string_agg(n.name, ', ') FROM (
           SELECT c.name FROM dovetail.consumer AS c ORDER BY c.name LIMIT 20) AS n),
        'start `dovetail run` with this consumer in its config: it makes the consumer known');
  END IF;
  RETURN found_id;
END
$$;

-- Sets the next event of a key going, after one of it left the queue.
CREATE FUNCTION dovetail.queue_next(of_consumer int, of_key bigint, after bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
BEGIN
  UPDATE dovetail.queue AS q SET waiting = false, due = clock_timestamp()
  WHERE q.waiting AND q.consumer_id = of_consumer AND q.event_id = (
    SELECT n.event_id FROM dovetail.queue AS n
    WHERE n.consumer_id = of_consumer AND n.key_hash = of_key AND n.number > after ORDER BY n.number LIMIT 1);
END
$$;

-- Of these rows, which the caller has locked, those behind another row of their key: they are made to wait where that is
-- possible. Whoever completes an event sets the next one going, if it can see that this waits. So a row may only wait
-- when the row before it is locked while this is written down, and when that row is changed, which fails a completion
-- under REPEATABLE READ that began before. A row before it that is locked by another is about to be completed: then
-- this one stays as it is, and is looked at again.
CREATE FUNCTION dovetail.queue_behind(of_consumer int, ids uuid[]) RETURNS uuid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
  behind uuid[];
  before uuid[];
  ready  uuid[];
BEGIN
  SELECT array_agg(q.event_id), array_agg(p.event_id) INTO behind, before
  FROM dovetail.queue AS q CROSS JOIN LATERAL (
    SELECT b.event_id FROM dovetail.queue AS b
    WHERE b.consumer_id = of_consumer AND b.key_hash = q.key_hash AND b.number < q.number
    ORDER BY b.number DESC LIMIT 1) AS p
  WHERE q.event_id = ANY (ids) AND q.consumer_id = of_consumer;
  IF behind IS NULL THEN
    RETURN '{}';
  END IF;
  ready := ARRAY(SELECT q.event_id FROM dovetail.queue AS q WHERE q.event_id = ANY (before) AND q.consumer_id = of_consumer
                 FOR UPDATE SKIP LOCKED);
  UPDATE dovetail.queue AS q SET waiting = q.waiting OR q.event_id = ANY (wait.ids)
  FROM (SELECT array_agg(u.id) AS ids FROM unnest(behind, before) AS u (id, before_id)
        WHERE u.before_id = ANY (ready)) AS wait
  WHERE q.event_id = ANY (ready || wait.ids) AND q.consumer_id = of_consumer;
  RETURN behind;
END
$$;

-- Makes a row need an operator.
CREATE FUNCTION dovetail.queue_park(of_consumer int, id uuid, why text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE dovetail.queue AS q
  SET parked_number = nextval('dovetail.parked_number_seq'), parked_at = clock_timestamp(), reason = left(why, 2000)
  WHERE q.event_id = id AND q.consumer_id = of_consumer
$$;

-- Takes at most one event of a key, and never one that stands behind another of its key.
CREATE FUNCTION dovetail.receive(
  consumer text, events_max int DEFAULT 1, lease interval DEFAULT '1 minute', attempts_max int DEFAULT 5)
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
      SELECT q.event_id, q.due, q.number, q.held, q.attempts, q.reason FROM dovetail.queue AS q
      WHERE q.consumer_id = of_consumer AND NOT q.waiting AND q.parked_number IS NULL AND q.due <= at
        AND (q.due, q.number) > (last_due, last_number)
      ORDER BY q.due, q.number LIMIT greatest(room, page) FOR UPDATE SKIP LOCKED
    LOOP
      last_due := one.due;
      last_number := one.number;
      IF one.attempts >= attempts_max THEN
        PERFORM dovetail.queue_park(of_consumer, one.event_id, format(
          CASE WHEN one.held THEN 'given up after %s attempts: the last worker had it until its lease ended'
               ELSE 'given up after %s attempts' END || coalesce('; before that: ' || nullif(one.reason, ''), ''),
          one.attempts));
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
  RETURN QUERY
  WITH taken AS (
    UPDATE dovetail.queue AS q
    SET epoch = nextval('dovetail.claim_epoch'), attempts = q.attempts + 1, attempts_max = receive.attempts_max,
        held = true, due = clock_timestamp() + lease
    WHERE q.event_id = ANY (chosen[1:events_max]) AND q.consumer_id = of_consumer RETURNING q.*)
  SELECT t.event_id, t.epoch, t.attempts, t.topic, t.aggregate_type, t.aggregate_id, t.type, t.content_type, t.headers,
         t.payload, t.aggregate_version, t.created_at
  FROM taken AS t ORDER BY t.number;
END
$$;
COMMENT ON FUNCTION dovetail.receive(text, int, interval, int) IS
'Takes up to events_max events out of the queue of a consumer, for as long as the lease says. In a transaction of its own:
SELECT * FROM dovetail.receive(''stock'', 10, ''1 minute'');
Then for each event, in the transaction of its effect: dovetail.complete(consumer, id, epoch). When it cannot be done:
dovetail.fail(consumer, id, epoch, reason), or dovetail.release(consumer, id, epoch) for one that was not tried. No rows:
nothing to do now, ask again a little later. Any number of workers may ask. Events of one key (aggregate_type,
aggregate_id) come in order, one at a time; other keys are not held up. An event that is not completed comes again when
the lease ends, alone; after attempts_max of that it is parked, and its key waits for an operator: dovetail.replay() or
dovetail.discard().';

-- Part 3: what becomes of an event that a worker has, by claim or by queue.

CREATE FUNCTION dovetail.complete(consumer text, id uuid, epoch bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.known_consumer(consumer);
  place       record;
BEGIN
  DELETE FROM dovetail.queue AS q
  WHERE q.event_id = complete.id AND q.consumer_id = of_consumer AND q.epoch = complete.epoch
  RETURNING q.key_hash, q.number INTO place;
  IF FOUND THEN
    IF place.key_hash IS NOT NULL THEN
      PERFORM dovetail.queue_next(of_consumer, place.key_hash, place.number);
    END IF;
    RETURN;
  END IF;
  DELETE FROM dovetail.claim AS c
  WHERE c.event_id = complete.id AND c.consumer_id = of_consumer AND c.epoch = complete.epoch;
  IF FOUND THEN
    INSERT INTO dovetail.inbox (event_id, consumer_id) VALUES (complete.id, of_consumer) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM dovetail.raise_lost(consumer, complete.id);
END
$$;
COMMENT ON FUNCTION dovetail.complete(text, uuid, bigint) IS
'The event is done; id and epoch are as dovetail.receive() or dovetail.claim() gave them. Call it in the transaction of
the effect: both commit, or none. Fails with SQLSTATE DT001 when the lease ended and another has taken the event, so that
the effect is rolled back. It still works after the end of the lease, while no other has taken the event.';

CREATE FUNCTION dovetail.complete_many(consumer text, ids uuid[], epochs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF cardinality(ids) IS DISTINCT FROM cardinality(epochs) THEN
    RAISE EXCEPTION 'there are % ids and % epochs', cardinality(ids), cardinality(epochs)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'give one epoch for each id, in the same order';
  END IF;
  PERFORM dovetail.complete(consumer, u.id, u.epoch) FROM unnest(ids, epochs) AS u (id, epoch);
END
$$;
COMMENT ON FUNCTION dovetail.complete_many(text, uuid[], bigint[]) IS
'dovetail.complete() for many events in one call. When one of them is lost, it fails for all.';

CREATE FUNCTION dovetail.fail(
  consumer text, id uuid, epoch bigint, reason text DEFAULT '', retry_after interval DEFAULT NULL,
  park boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.known_consumer(consumer);
  place       record;
BEGIN
  UPDATE dovetail.queue AS q
  SET epoch = NULL, held = false, reason = left(coalesce(fail.reason, ''), 2000), due = clock_timestamp() + greatest('0',
    coalesce(retry_after, least(interval '5 minutes', interval '1 second' * power(2, least(q.attempts, 20) - 1))))
  WHERE q.event_id = fail.id AND q.consumer_id = of_consumer AND q.epoch = fail.epoch
  RETURNING q.attempts, q.attempts_max, q.parked_number INTO place;
  IF FOUND THEN
    IF place.parked_number IS NOT NULL THEN
      RETURN 'parked';
    ELSIF park OR place.attempts >= place.attempts_max THEN
      PERFORM dovetail.queue_park(of_consumer, fail.id, coalesce(nullif(fail.reason, ''), 'a worker failed, and gave no reason'));
      RETURN 'parked';
    END IF;
    RETURN 'retry';
  END IF;
  UPDATE dovetail.claim AS c
  SET epoch = nextval('dovetail.claim_epoch'), expires = clock_timestamp() + greatest('0', coalesce(retry_after, '0'))
  WHERE c.event_id = fail.id AND c.consumer_id = of_consumer AND c.epoch = fail.epoch;
  IF NOT FOUND THEN
    PERFORM dovetail.raise_lost(consumer, fail.id);
  END IF;
  RETURN 'retry';
END
$$;
COMMENT ON FUNCTION dovetail.fail(text, uuid, bigint, text, interval, boolean) IS
'The event could not be handled this time: call it after the effect was rolled back, in a transaction of its own. Returns
''retry'': it comes again after retry_after (by default 1 s, 2 s, 4 s, up to 5 minutes; a claim at once). ''parked'': it
had all its attempts, or park => true said that it will never work; its key waits for an operator. The reason is kept and
shown: put no secrets into it. Fails with SQLSTATE DT001 when another has taken the event.';

CREATE FUNCTION dovetail.release(consumer text, id uuid, epoch bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.known_consumer(consumer);
BEGIN
  UPDATE dovetail.queue AS q SET epoch = NULL, held = false, attempts = q.attempts - 1, due = clock_timestamp()
  WHERE q.event_id = release.id AND q.consumer_id = of_consumer AND q.epoch = release.epoch;
  IF NOT FOUND THEN
    UPDATE dovetail.claim AS c
    SET epoch = nextval('dovetail.claim_epoch'), expires = clock_timestamp(), attempts = c.attempts - 1
    WHERE c.event_id = release.id AND c.consumer_id = of_consumer AND c.epoch = release.epoch;
    IF NOT FOUND THEN
      PERFORM dovetail.raise_lost(consumer, release.id);
    END IF;
  END IF;
END
$$;
COMMENT ON FUNCTION dovetail.release(text, uuid, bigint) IS
'Gives an event back that was not tried, at once and without counting an attempt: for a worker that stops, or that cannot
reach something it needs. Fails with SQLSTATE DT001 when another has taken the event.';

CREATE FUNCTION dovetail.extend(consumer text, id uuid, epoch bigint, lease interval) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.known_consumer(consumer);
  until       timestamptz;
BEGIN
  PERFORM dovetail.check_lease(lease);
  UPDATE dovetail.queue AS q SET due = clock_timestamp() + lease
  WHERE q.event_id = extend.id AND q.consumer_id = of_consumer AND q.epoch = extend.epoch AND q.parked_number IS NULL
  RETURNING q.due INTO until;
  IF until IS NULL THEN
    UPDATE dovetail.claim AS c SET expires = clock_timestamp() + lease
    WHERE c.event_id = extend.id AND c.consumer_id = of_consumer AND c.epoch = extend.epoch
    RETURNING c.expires INTO until;
  END IF;
  IF until IS NULL THEN
    PERFORM dovetail.raise_lost(consumer, extend.id);
  END IF;
  RETURN until;
END
$$;
COMMENT ON FUNCTION dovetail.extend(text, uuid, bigint, interval) IS
'Keeps an event for longer, from now on; for work that takes its time. In a transaction of its own. Returns when the lease
ends now. Fails with SQLSTATE DT001 when another has taken the event.';

-- Part 4: what operators see of queues, and decide.

-- For people: how much there is in each queue. `ready`: a worker may take it; `held`: a worker has it; `later`: it waits
-- for a retry; `waiting`: it stands behind another of its key.
CREATE VIEW dovetail.queues AS
SELECT c.name AS consumer, count(*) AS events,
       count(*) FILTER (WHERE NOT q.waiting AND q.parked_number IS NULL AND q.due <= clock_timestamp()) AS ready,
       count(*) FILTER (WHERE q.held AND q.parked_number IS NULL AND q.due > clock_timestamp()) AS held,
       count(*) FILTER (WHERE NOT q.held AND NOT q.waiting AND q.parked_number IS NULL
                          AND q.due > clock_timestamp()) AS later,
       count(*) FILTER (WHERE q.waiting) AS waiting,
       count(*) FILTER (WHERE q.parked_number IS NOT NULL) AS parked,
       min(q.queued_at) AS oldest_at, clock_timestamp() - min(q.queued_at) AS oldest_age
FROM dovetail.queue AS q JOIN dovetail.consumer AS c ON c.id = q.consumer_id GROUP BY c.name;

-- For people: the events that need an operator, without payload.
CREATE VIEW dovetail.queue_parked AS
SELECT q.parked_number AS number, c.name AS consumer, q.event_id AS id, q.number AS position, q.attempts, q.reason, q.topic,
       q.aggregate_type, q.aggregate_id, q.type, octet_length(q.payload) AS payload_length, q.created_at, q.queued_at,
       q.parked_at
FROM dovetail.queue AS q JOIN dovetail.consumer AS c ON c.id = q.consumer_id WHERE q.parked_number IS NOT NULL;

-- For programs of dovetail: sets parked events going again, by their numbers. Returns how many.
CREATE FUNCTION dovetail.queue_replay(numbers bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  count bigint;
BEGIN
  UPDATE dovetail.queue AS q
  SET parked_number = NULL, parked_at = NULL, attempts = 0, held = false, epoch = NULL, due = clock_timestamp()
  WHERE q.parked_number = ANY (numbers);
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END
$$;

-- For programs of dovetail: gives parked events up, by their numbers; `followers`: and what waits behind them. What was
-- given up stays in dovetail.parked, as the history. Returns how many.
CREATE FUNCTION dovetail.queue_discard(numbers bigint[], followers boolean, note text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head  record;
  gone  dovetail.queue;
  count bigint := 0;
BEGIN
  FOR head IN SELECT q.consumer_id, q.key_hash, q.number, q.event_id, c.name FROM dovetail.queue AS q
              JOIN dovetail.consumer AS c ON c.id = q.consumer_id
              WHERE q.parked_number = ANY (numbers) ORDER BY q.parked_number FOR UPDATE OF q LOOP
    FOR gone IN
      DELETE FROM dovetail.queue AS q WHERE q.consumer_id = head.consumer_id AND (q.event_id = head.event_id
        OR (followers AND q.key_hash = head.key_hash AND q.number > head.number AND (q.epoch IS NULL OR NOT q.held)))
      RETURNING q.*
    LOOP
      count := count + 1;
      INSERT INTO dovetail.parked AS p (relay, id, position, topic, aggregate_type, aggregate_id, type, content_type,
        headers, payload, aggregate_version, created_at, state, attempts, reason, note, parked_at, retry_at, finished_at)
      VALUES (head.name, gone.event_id, gone.number, gone.topic, gone.aggregate_type, gone.aggregate_id, gone.type,
        gone.content_type, CASE WHEN gone.headers = '{}' THEN '' ELSE gone.headers::text END, gone.payload,
        gone.aggregate_version, gone.created_at, 'discarded', gone.attempts, gone.reason, queue_discard.note,
        coalesce(gone.parked_at, clock_timestamp()), clock_timestamp(), clock_timestamp())
      ON CONFLICT (relay, id) DO UPDATE SET state = 'discarded', at_head = false, attempts = excluded.attempts,
        reason = excluded.reason, note = excluded.note, finished_at = excluded.finished_at;
    END LOOP;
    IF head.key_hash IS NOT NULL THEN
      PERFORM dovetail.queue_next(head.consumer_id, head.key_hash, head.number);
    END IF;
  END LOOP;
  RETURN count;
END
$$;

CREATE FUNCTION dovetail.parked_in_queue(consumer text, id uuid) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  number bigint := (SELECT q.parked_number FROM dovetail.queue AS q
                    WHERE q.event_id = id AND q.consumer_id = dovetail.known_consumer(consumer));
BEGIN
  IF number IS NULL THEN
    RAISE EXCEPTION 'event % is not parked in the queue of consumer "%"', id, consumer
      USING ERRCODE = 'no_data_found', HINT = 'see what is: SELECT * FROM dovetail.queue_parked';
  END IF;
  RETURN number;
END
$$;

CREATE FUNCTION dovetail.replay(consumer text, id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dovetail.queue_replay(ARRAY[dovetail.parked_in_queue(consumer, id)]);
  INSERT INTO dovetail.audit (what, relay, subject, events) VALUES ('replay', consumer, id::text, 1);
END
$$;
COMMENT ON FUNCTION dovetail.replay(text, uuid) IS
'Sets a parked event of a queue going again, with all its attempts; what waits behind it follows. See dovetail.queue_parked.';

CREATE FUNCTION dovetail.discard(consumer text, id uuid, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(btrim(reason), '') = '' THEN
    RAISE EXCEPTION 'a discard needs a reason'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the event is given up: the reason is kept';
  END IF;
  PERFORM dovetail.queue_discard(ARRAY[dovetail.parked_in_queue(consumer, id)], false, reason);
  INSERT INTO dovetail.audit (what, relay, subject, events, reason) VALUES ('discard', consumer, id::text, 1, reason);
END
$$;
COMMENT ON FUNCTION dovetail.discard(text, uuid, text) IS
'Gives a parked event of a queue up, for good; what waits behind it follows. See dovetail.queue_parked.';

REVOKE ALL ON FUNCTION dovetail.consumer_id(text), dovetail.is_forgotten(int, uuid, timestamptz),
  dovetail.check_lease(interval), dovetail.raise_lost(text, uuid), dovetail.raise_forgotten(text, uuid),
  dovetail.claim(text, uuid), dovetail.claim_event(int, uuid, timestamptz, interval), dovetail.claim(text, uuid, interval),
  dovetail.claim_many(text, uuid[], timestamptz[], interval), dovetail.complete_claims(text, uuid[], bigint[]),
  dovetail.release_claims(text, uuid[], bigint[], text),
  dovetail.enqueue(text, uuid[], text[], text[], text[], text[], text[], text[], bytea[], bigint[], timestamptz[]),
  dovetail.known_consumer(text), dovetail.queue_next(int, bigint, bigint), dovetail.queue_behind(int, uuid[]),
  dovetail.queue_park(int, uuid, text), dovetail.receive(text, int, interval, int), dovetail.complete(text, uuid, bigint),
  dovetail.complete_many(text, uuid[], bigint[]), dovetail.fail(text, uuid, bigint, text, interval, boolean),
  dovetail.release(text, uuid, bigint), dovetail.extend(text, uuid, bigint, interval), dovetail.queue_replay(bigint[]),
  dovetail.queue_discard(bigint[], boolean, text), dovetail.parked_in_queue(text, uuid), dovetail.replay(text, uuid),
  dovetail.discard(text, uuid, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 3;
