-- Version 7: the inbox: what it remembers and forgets.

-- Part 1: what a row of the inbox says beside its id.

-- `digest` tells two events with one id apart: the first 8 bytes of the payload's SHA-256. Null: nobody knows it, and every
-- payload fits. `available_at` is when the event could first have been applied, where its id does not say so: the id is
-- not of version 7, or the event went out later than it was made.
ALTER TABLE dovetail.inbox ADD COLUMN digest bigint, ADD COLUMN available_at timestamptz;
-- A claim that is completed becomes a row of the inbox.
ALTER TABLE dovetail.claim ADD COLUMN digest bigint, ADD COLUMN available_at timestamptz;

-- Part 2: what was forgotten, of each consumer.

-- No row was ever deleted of an event that could first have been applied later than this.
ALTER TABLE dovetail.consumer ADD COLUMN forgotten_until timestamptz NOT NULL DEFAULT '-infinity';
-- Up to where the line above is known. An older program deletes rows and moves forgotten_before alone; until this one has
-- seen that, forgotten_before counts for everybody.
ALTER TABLE dovetail.inbox_state ADD COLUMN exact_before timestamptz NOT NULL DEFAULT '-infinity';

-- Events that a consumer is known not to have applied, written down while that could be known, or by an operator who has
-- looked: they are applied whatever their age. A row may stay when its event was applied, and goes at the latest with
-- the inbox row of the event.
CREATE TABLE dovetail.unapplied (
  event_id    uuid NOT NULL,
  consumer_id int NOT NULL,
  since       timestamptz NOT NULL DEFAULT clock_timestamp(),
  by_operator boolean NOT NULL DEFAULT false,
  PRIMARY KEY (event_id, consumer_id)
);

CREATE VIEW dovetail.forgetting AS
SELECT c.id AS consumer_id, s.forgotten_before <= s.exact_before AS exact,
       CASE WHEN s.forgotten_before > s.exact_before AND c.created_at < s.forgotten_before
            THEN greatest(c.forgotten_until, s.forgotten_before) ELSE c.forgotten_until END AS until
FROM dovetail.consumer AS c CROSS JOIN dovetail.inbox_state AS s;

-- Takes over what an older program has deleted. For the owner.
CREATE FUNCTION dovetail.settle_forgetting() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM dovetail.inbox_state AS s WHERE s.forgotten_before > s.exact_before FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  UPDATE dovetail.consumer AS c SET forgotten_until = f.until
  FROM dovetail.forgetting AS f WHERE f.consumer_id = c.id AND f.until > c.forgotten_until;
  DELETE FROM dovetail.unapplied WHERE NOT by_operator;
  UPDATE dovetail.inbox_state SET exact_before = forgotten_before;
END
$$;
SELECT dovetail.settle_forgetting();

-- When an event could first have been applied: at the time in its id, or, where it went out more than an hour later than it
-- was made, then. Null: nobody knows.
CREATE FUNCTION dovetail.available_at(id uuid, created_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN created_at > dovetail.time_of(id) + interval '1 hour' THEN created_at
              ELSE coalesce(dovetail.time_of(id), nullif(created_at, 'epoch')) END
$$;

-- True for an event without a row, which may have had one. `created_at` may be null. Call it in a statement after the one
-- that inserted the row.
CREATE OR REPLACE FUNCTION dovetail.is_forgotten(of_consumer int, id uuid, created_at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  line record;
BEGIN
  SELECT f.until, f.exact INTO line FROM dovetail.forgetting AS f WHERE f.consumer_id = of_consumer;
  IF line.until IS NULL
     OR coalesce(dovetail.available_at(id, created_at) > line.until, true) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM dovetail.unapplied AS u
                     WHERE u.event_id = is_forgotten.id AND u.consumer_id = of_consumer
                       AND (u.by_operator OR line.exact));
END
$$;

-- A delayed event comes to be when it is released: from then on it can be applied.
CREATE OR REPLACE FUNCTION dovetail.release_events(ids uuid[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moved bigint;
BEGIN
  -- Not as a setting of the function: only superusers may give a function one that the server does not know.
  PERFORM set_config('dovetail.releasing', 'on', true);
  WITH due AS (DELETE FROM dovetail.delayed WHERE id = ANY (ids) RETURNING *)
  INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload,
                               aggregate_version, created_at)
  SELECT id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version,
         clock_timestamp()
  FROM due ORDER BY deliver_at, number
  ON CONFLICT (id) DO NOTHING;
  GET DIAGNOSTICS moved = ROW_COUNT;
  PERFORM set_config('dovetail.releasing', '', true);
  RETURN moved;
END
$$;

-- Part 3: claims know the payload, too.

-- `created_at` and `digest` may be null. The state 'conflict': another event has this id.
CREATE FUNCTION dovetail.claim_event(
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
  INSERT INTO dovetail.claim AS c (event_id, consumer_id, epoch, attempts, expires, digest, available_at)
  VALUES (claim_event.id, of_consumer, nextval('dovetail.claim_epoch'), 1, clock_timestamp() + lease, claim_event.digest,
          nullif(dovetail.available_at(claim_event.id, claim_event.created_at), dovetail.time_of(claim_event.id)))
  ON CONFLICT (event_id, consumer_id) DO UPDATE
    SET epoch = nextval('dovetail.claim_epoch'), attempts = c.attempts + 1, expires = clock_timestamp() + lease,
        digest = coalesce(excluded.digest, c.digest), available_at = coalesce(excluded.available_at, c.available_at)
    WHERE c.expires <= clock_timestamp() AND (c.digest = excluded.digest) IS NOT false
  RETURNING c.epoch, c.attempts INTO epoch, attempts;
  IF epoch IS NULL THEN
    SELECT c.digest INTO known FROM dovetail.claim AS c WHERE c.event_id = claim_event.id AND c.consumer_id = of_consumer;
    state := CASE WHEN known.digest <> claim_event.digest THEN 'conflict' ELSE 'in_progress' END;
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

CREATE OR REPLACE FUNCTION dovetail.claim_event(
  of_consumer int, id uuid, created_at timestamptz, lease interval,
  OUT state text, OUT epoch bigint, OUT attempts int)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.state, c.epoch, c.attempts FROM dovetail.claim_event(of_consumer, id, created_at, NULL, lease) AS c
$$;

-- For programs of dovetail, as claim_many() without digests.
CREATE FUNCTION dovetail.claim_many(
  consumer text, ids uuid[], created_ats timestamptz[], digests bigint[], lease interval)
RETURNS TABLE (id uuid, state text, epoch bigint, attempts int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
BEGIN
  PERFORM dovetail.check_lease(lease);
  FOR id, state, epoch, attempts IN
    SELECT e.id, c.state, c.epoch, c.attempts
    FROM (SELECT DISTINCT ON (u.id) u.id, u.created_at, u.digest
          FROM unnest(ids, created_ats, digests) AS u (id, created_at, digest) ORDER BY u.id) AS e
    CROSS JOIN LATERAL dovetail.claim_event(of_consumer, e.id, e.created_at, e.digest, lease) AS c
  LOOP
    RETURN NEXT;
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.complete_claims(consumer text, ids uuid[], epochs bigint[]) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.consumer_id(consumer);
  one         record;
  held        record;
BEGIN
  FOR one IN SELECT u.id, u.epoch FROM unnest(ids, epochs) AS u (id, epoch) ORDER BY u.id LOOP
    DELETE FROM dovetail.claim AS c WHERE c.event_id = one.id AND c.consumer_id = of_consumer AND c.epoch = one.epoch
    RETURNING c.digest, c.available_at INTO held;
    CONTINUE WHEN NOT FOUND;
    INSERT INTO dovetail.inbox (event_id, consumer_id, digest, available_at)
    VALUES (one.id, of_consumer, held.digest, held.available_at) ON CONFLICT DO NOTHING;
    -- Somebody applied it without a claim.
    CONTINUE WHEN NOT FOUND;
    RETURN NEXT one.id;
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.complete(consumer text, id uuid, epoch bigint) RETURNS void
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
    PERFORM dovetail.queue_passed(of_consumer, place.key_hash);
    RETURN;
  END IF;
  DELETE FROM dovetail.claim AS c
  WHERE c.event_id = complete.id AND c.consumer_id = of_consumer AND c.epoch = complete.epoch
  RETURNING c.digest, c.available_at INTO place;
  IF FOUND THEN
    INSERT INTO dovetail.inbox (event_id, consumer_id, digest, available_at)
    VALUES (complete.id, of_consumer, place.digest, place.available_at) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM dovetail.raise_lost(consumer, complete.id);
END
$$;

-- An event that was tried and not done is known not to be applied, however long it is parked.
CREATE OR REPLACE FUNCTION dovetail.release_claims(consumer text, ids uuid[], epochs bigint[], how text) RETURNS void
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
    IF FOUND AND how IN ('failed', 'parked') THEN
      INSERT INTO dovetail.unapplied (event_id, consumer_id) VALUES (one.id, of_consumer) ON CONFLICT DO NOTHING;
    END IF;
  END LOOP;
END
$$;

-- Part 4: what an operator decides, each with a reason that is kept.

-- `consumer` with all of its handlers, or one of these: 'stock.ledger'. Returns of how many rows it was known by. It is
-- applied when it comes again, whatever its age.
CREATE OR REPLACE FUNCTION dovetail.forget_event(consumer text, id uuid, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  why       text := dovetail.check_reason(reason);
  forgotten bigint;
BEGIN
  WITH gone AS (
    DELETE FROM dovetail.inbox AS i USING dovetail.consumer AS c
    WHERE i.event_id = forget_event.id AND i.consumer_id = c.id
      AND (c.name = forget_event.consumer OR starts_with(c.name, forget_event.consumer || '.'))
    RETURNING i.event_id, i.consumer_id),
  kept AS (
    INSERT INTO dovetail.unapplied (event_id, consumer_id, by_operator)
    SELECT g.event_id, g.consumer_id, true FROM gone AS g
    ON CONFLICT (event_id, consumer_id) DO UPDATE SET by_operator = true, since = clock_timestamp())
  SELECT count(*) INTO forgotten FROM gone;
  IF forgotten > 0 THEN
    INSERT INTO dovetail.audit (what, relay, subject, events, reason)
    VALUES ('forget', forget_event.consumer, forget_event.id::text, forgotten, why);
  END IF;
  RETURN forgotten;
END
$$;

-- An operator has checked that this consumer, or this one of its handlers, has not applied the event: it is applied when
-- it comes, whatever its age. Returns for how many handlers; 0: all of them have a row of it.
CREATE FUNCTION dovetail.apply_event(consumer text, id uuid, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  why     text := dovetail.check_reason(reason);
  allowed bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM dovetail.consumer AS c
                 WHERE c.name = apply_event.consumer OR starts_with(c.name, apply_event.consumer || '.')) THEN
    RAISE EXCEPTION 'there is no consumer "%"', consumer
      USING ERRCODE = 'undefined_object', HINT = 'check the name with `dovetail status`';
  END IF;
  INSERT INTO dovetail.unapplied (event_id, consumer_id, by_operator)
  SELECT apply_event.id, c.id, true FROM dovetail.consumer AS c
  WHERE (c.name = apply_event.consumer OR starts_with(c.name, apply_event.consumer || '.'))
    AND NOT EXISTS (SELECT FROM dovetail.inbox AS i WHERE i.event_id = apply_event.id AND i.consumer_id = c.id)
  ON CONFLICT (event_id, consumer_id) DO UPDATE SET by_operator = true, since = clock_timestamp();
  GET DIAGNOSTICS allowed = ROW_COUNT;
  IF allowed > 0 THEN
    INSERT INTO dovetail.audit (what, relay, subject, events, reason)
    VALUES ('apply', apply_event.consumer, apply_event.id::text, allowed, why);
  END IF;
  RETURN allowed;
END
$$;
COMMENT ON FUNCTION dovetail.apply_event(text, uuid, text) IS
'Lets a consumer apply an event that is older than what its inbox remembers. Check first that its effect is not there: it
may have been applied before, and then it happens twice. Afterwards replay the event.';

-- After a wrong clock has made the inbox forget too much: what could first have been applied after `since` counts as
-- remembered again. Returns the line that was there before.
CREATE FUNCTION dovetail.remember_since(since timestamptz, reason text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  why    text := dovetail.check_reason(reason);
  before timestamptz;
BEGIN
  PERFORM FROM dovetail.inbox_state FOR UPDATE;
  SELECT max(f.until) INTO before FROM dovetail.forgetting AS f;
  IF since IS NULL OR NOT isfinite(since) OR since >= coalesce(before, '-infinity') THEN
    RAISE EXCEPTION 'the inbox remembers everything since %, so nothing changes', before
      USING ERRCODE = 'invalid_parameter_value', HINT = 'give a time before that';
  END IF;
  PERFORM dovetail.settle_forgetting();
  UPDATE dovetail.consumer AS c SET forgotten_until = remember_since.since
  WHERE c.forgotten_until > remember_since.since;
  UPDATE dovetail.inbox_state AS s SET forgotten_before = least(s.forgotten_before, remember_since.since),
                                       exact_before = least(s.forgotten_before, remember_since.since);
  INSERT INTO dovetail.audit (what, subject, reason)
  VALUES ('remember', format('since %s instead of %s', remember_since.since, before), why);
  RETURN before;
END
$$;
COMMENT ON FUNCTION dovetail.remember_since(timestamptz, text) IS
'For an inbox that a wrong clock has made forget too much. `since`: the moment at which rows were deleted last, by a right
clock. What comes and is older stays parked; what is newer is applied. Check that no event newer than that was applied
before the rows were deleted.';

-- Part 5: whether the clock can be trusted by which old rows are chosen.

-- One moment by two clocks: that of this server, and that of the machine which deletes, in microseconds since it was
-- started. `doubted`: since when the two do not fit the moment before.
CREATE TABLE dovetail.clock_mark (
  boot              text COLLATE "C" PRIMARY KEY,
  wall              timestamptz,   -- null: it was never trusted since the boot
  boot_time         bigint,
  doubted_wall      timestamptz,
  doubted_boot_time bigint
);

-- Part 6: which failures of a queue count. An event is poison when it fails while its neighbours succeed; when everything
-- fails, the fault is elsewhere, and nothing is parked.

-- `suspect`: it failed, or its worker died, and nothing of another key was completed since. When that happens, it is one
-- of the `failures`.
ALTER TABLE dovetail.queue ADD COLUMN failures int NOT NULL DEFAULT 0, ADD COLUMN suspect boolean NOT NULL DEFAULT false;
CREATE INDEX queue_suspect ON dovetail.queue (consumer_id) WHERE suspect;

-- An event of this key was completed. A suspect that somebody has locked is left for the next time. Under REPEATABLE READ
-- one may have been changed since: that is no reason to fail the completion.
CREATE FUNCTION dovetail.queue_passed(of_consumer int, of_key bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
  IF EXISTS (SELECT FROM dovetail.queue AS q WHERE q.consumer_id = of_consumer AND q.suspect) THEN
    BEGIN
      UPDATE dovetail.queue AS q SET failures = q.failures + 1, suspect = false
      WHERE q.consumer_id = of_consumer AND q.event_id = ANY (ARRAY(
        SELECT s.event_id FROM dovetail.queue AS s
        WHERE s.consumer_id = of_consumer AND s.suspect AND (s.key_hash IS NULL OR s.key_hash IS DISTINCT FROM of_key)
        LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED));
    EXCEPTION WHEN serialization_failure THEN
      NULL;
    END;
  END IF;
END
$$;

-- How long a failed event waits, with jitter: 15 failures that count take about an hour.
CREATE FUNCTION dovetail.queue_pause(attempts int, is_suspect boolean) RETURNS interval
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (0.75 + random() / 4) * least(CASE WHEN is_suspect THEN interval '15 seconds' ELSE interval '10 minutes' END,
                                       interval '1 second' * power(2, least(attempts, 20) - 1))
$$;

-- Makes a row need an operator. When it is replayed, it begins anew.
CREATE OR REPLACE FUNCTION dovetail.queue_park(of_consumer int, id uuid, why text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE dovetail.queue AS q
  SET parked_number = nextval('dovetail.parked_number_seq'), parked_at = clock_timestamp(), reason = left(why, 2000),
      failures = 0, suspect = false
  WHERE q.event_id = id AND q.consumer_id = of_consumer
$$;

-- Takes at most one event of a key, and never one that stands behind another of its key.
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
COMMENT ON FUNCTION dovetail.receive(text, int, interval, int) IS
'Takes up to events_max events out of the queue of a consumer, for as long as the lease says. In a transaction of its own:
SELECT * FROM dovetail.receive(''stock'', 10, ''1 minute'');
Then for each event, in the transaction of its effect: dovetail.complete(consumer, id, epoch). When it cannot be done:
dovetail.fail(consumer, id, epoch, reason), or dovetail.release(consumer, id, epoch) for one that was not tried. No rows:
nothing to do now, ask again a little later. Any number of workers may ask. Events of one key (aggregate_type,
aggregate_id) come in order, one at a time; other keys are not held up. An event that is not completed comes again when
the lease ends, alone. An attempt that failed counts once an event of another key is completed after it. After
attempts_max of these, or 5 where the lease ended, the next failure parks the event, and its key waits for an operator:
dovetail.replay() or dovetail.discard().';

CREATE OR REPLACE FUNCTION dovetail.fail(
  consumer text, id uuid, epoch bigint, reason text DEFAULT '', retry_after interval DEFAULT NULL,
  park boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  of_consumer int := dovetail.known_consumer(consumer);
  place       record;
BEGIN
  UPDATE dovetail.queue AS q
  SET epoch = NULL, held = false, suspect = true, reason = left(coalesce(fail.reason, ''), 2000),
      due = clock_timestamp() + greatest('0', coalesce(retry_after, dovetail.queue_pause(q.attempts, q.suspect)))
  WHERE q.event_id = fail.id AND q.consumer_id = of_consumer AND q.epoch = fail.epoch
  RETURNING q.failures, q.attempts_max, q.parked_number INTO place;
  IF FOUND THEN
    IF place.parked_number IS NOT NULL THEN
      RETURN 'parked';
    ELSIF park OR place.failures >= place.attempts_max THEN
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
''retry'': it comes again after retry_after (by default about 1 s, 2 s, 4 s, up to 10 minutes, or 15 s while no other key
passes; a claim at once). ''parked'': it had all its attempts, or park => true said that it will never work; its key
waits for an operator. The reason is kept and shown: put no secrets into it. Fails with SQLSTATE DT001 when another has
taken the event.';

REVOKE ALL ON FUNCTION
  dovetail.settle_forgetting(), dovetail.available_at(uuid, timestamptz), dovetail.claim_event(int, uuid, timestamptz, bigint, interval),
  dovetail.claim_many(text, uuid[], timestamptz[], bigint[], interval), dovetail.apply_event(text, uuid, text),
  dovetail.remember_since(timestamptz, text), dovetail.queue_passed(int, bigint), dovetail.queue_pause(int, boolean)
  FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 7;
