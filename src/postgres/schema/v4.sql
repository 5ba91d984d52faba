-- Version 4 of dovetail's tables in a PostgreSQL database: HTTP requests that are applied once.

-- One row for each request that carried an idempotency key. `scope` says whose key it is: a service and its client.
-- `status` is null until it is finished. `lease_until`: who holds `token` runs it until then; afterwards nobody knows
-- what became of it. A request that runs inside a transaction has no lease, because its row is seen when it is finished.
-- `expires_at` stays as it is when a request is finished, so that this touches no index.
CREATE TABLE dovetail.request (
  scope       text COLLATE "C" NOT NULL CHECK (octet_length(scope) <= 255),
  key         text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) <= 64),
  token       uuid NOT NULL,
  attempts    int NOT NULL DEFAULT 1,
  lease_until timestamptz NOT NULL,
  status      int CHECK (status BETWEEN 100 AND 999),
  headers     text,
  body        bytea,
  created_at  timestamptz NOT NULL,
  finished_at timestamptz,
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (scope, key)
) WITH (fillfactor = 50);
CREATE INDEX request_expiry ON dovetail.request (expires_at);

-- For people: without what was answered.
CREATE VIEW dovetail.requests AS
SELECT scope, key, CASE WHEN status IS NOT NULL THEN 'finished'
                        WHEN lease_until > clock_timestamp() THEN 'running' ELSE 'unknown' END AS state,
       attempts, status, octet_length(body) AS body_bytes, created_at, finished_at, expires_at
FROM dovetail.request;

-- What makes two requests the same: every service and the gateway count it in the same way.
CREATE FUNCTION dovetail.request_fingerprint(method text, target text, body bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sha256(int8send(octet_length(method)) || convert_to(method, 'UTF8')
             || int8send(octet_length(target)) || convert_to(target, 'UTF8')
             || int8send(octet_length(coalesce(body, ''))) || coalesce(body, ''))
$$;

-- Takes a request, or says why not. `lease` null: inside the caller's transaction. Only called by the functions below.
CREATE FUNCTION dovetail.take_request(
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
      INSERT INTO dovetail.request (scope, key, fingerprint, token, lease_until, created_at, expires_at)
      VALUES (take_request.scope, take_request.key, take_request.fingerprint, take_request.token, ends, moment,
              moment + take_request.keep)
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
    -- Expired, or to be tried again. Whoever is first here changes the token.
    UPDATE dovetail.request AS r
    SET fingerprint = take_request.fingerprint, token = take_request.token, lease_until = ends, status = NULL,
        headers = NULL, body = NULL, created_at = moment, finished_at = NULL, expires_at = moment + take_request.keep,
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

-- For a service that does all its work in one transaction of this database. Inside that transaction, before anything
-- else; `state` is one of
--   first     go on, then dovetail.finish_request() with the token, then COMMIT
--   finished  answer with status, headers and body
--   running   another transaction is at it: answer 409. With `wait` it is waited for instead
--   mismatch  the key was used for another request: answer 422
--   unknown   it was begun under a lease, or committed unfinished, and nobody knows what became of it
CREATE FUNCTION dovetail.begin_request(
  scope text, key text, fingerprint bytea, keep interval DEFAULT '24 hours', wait boolean DEFAULT false,
  OUT state text, OUT token uuid, OUT status int, OUT headers text, OUT body bytea, OUT retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own uuid := gen_random_uuid();
BEGIN
  SELECT t.state, t.status, t.headers, t.body, t.retry_after
  INTO begin_request.state, begin_request.status, begin_request.headers, begin_request.body, begin_request.retry_after
  FROM dovetail.take_request(begin_request.scope, begin_request.key, begin_request.fingerprint, own, NULL,
                             begin_request.keep, begin_request.wait, false) AS t;
  IF begin_request.state = 'first' THEN
    begin_request.token := own;
  END IF;
END
$$;

-- For a service whose work happens elsewhere, too: COMMIT at once, do the work, then dovetail.finish_request(). While the
-- lease lasts, others get 'running'. Who dies leaves 'unknown', which is held until it expires; with `retry_unknown` the
-- next one may try again instead. Who was not sure whether this was committed calls it again with the same `token`.
CREATE FUNCTION dovetail.lease_request(
  scope text, key text, fingerprint bytea, lease interval DEFAULT '1 minute', keep interval DEFAULT '24 hours',
  retry_unknown boolean DEFAULT false, INOUT token uuid DEFAULT NULL,
  OUT state text, OUT status int, OUT headers text, OUT body bytea, OUT retry_after interval, OUT attempts int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  lease_request.token := coalesce(lease_request.token, gen_random_uuid());
  SELECT t.state, t.status, t.headers, t.body, t.retry_after, t.attempts
  INTO lease_request.state, lease_request.status, lease_request.headers, lease_request.body, lease_request.retry_after,
       lease_request.attempts
  FROM dovetail.take_request(lease_request.scope, lease_request.key, lease_request.fingerprint, lease_request.token,
                             coalesce(lease_request.lease, '1 minute'), lease_request.keep, false,
                             lease_request.retry_unknown) AS t;
  IF lease_request.state <> 'first' THEN
    lease_request.token := NULL;
  END IF;
END
$$;

-- Keeps the answer. False: another has taken the request over. The same again is accepted.
CREATE FUNCTION dovetail.settle_request(scope text, key text, token uuid, status int, headers text, body bytea)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  UPDATE dovetail.request AS r
  SET status = settle_request.status, headers = settle_request.headers, body = settle_request.body,
      finished_at = clock_timestamp()
  WHERE r.scope = settle_request.scope AND r.key = settle_request.key AND r.token = settle_request.token
    AND r.status IS NULL;
  RETURN FOUND OR EXISTS (
    SELECT FROM dovetail.request AS r
    WHERE r.scope = settle_request.scope AND r.key = settle_request.key AND r.token = settle_request.token);
END
$$;

-- The same; fails when another has taken the request over, so that what was done in this transaction is undone.
CREATE FUNCTION dovetail.finish_request(
  scope text, key text, token uuid, status int, headers text DEFAULT '', body bytea DEFAULT '')
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF dovetail.settle_request(finish_request.scope, finish_request.key, finish_request.token, finish_request.status,
                             finish_request.headers, finish_request.body) IS NOT TRUE THEN
    RAISE EXCEPTION 'the request is not held by this token any more'
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'check that the lease is longer than the work takes, and roll back';
  END IF;
END
$$;

-- Nothing was done: the next request with this key runs.
CREATE FUNCTION dovetail.release_request(scope text, key text, token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM dovetail.request AS r
  WHERE r.scope = release_request.scope AND r.key = release_request.key AND r.token = release_request.token
    AND r.status IS NULL;
  RETURN FOUND;
END
$$;

-- Nobody will ever know what was done: ends the lease at once.
CREATE FUNCTION dovetail.abandon_request(scope text, key text, token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dovetail.request AS r SET lease_until = '-infinity'
  WHERE r.scope = abandon_request.scope AND r.key = abandon_request.key AND r.token = abandon_request.token
    AND r.status IS NULL;
  RETURN FOUND;
END
$$;

-- For an operator, who has found out what became of a request: the next one with this key runs. Not while it runs.
CREATE FUNCTION dovetail.forget_request(scope text, key text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(forget_request.reason, '') = '' THEN
    RAISE EXCEPTION 'to forget a request needs a reason, which is kept'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the request may run again';
  END IF;
  DELETE FROM dovetail.request AS r
  WHERE r.scope = forget_request.scope AND r.key = forget_request.key
    AND (r.status IS NOT NULL OR r.lease_until <= clock_timestamp());
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO dovetail.audit (what, subject, events, reason)
  VALUES ('forget request', forget_request.scope || ' ' || forget_request.key, 1, left(forget_request.reason, 1000));
  RETURN true;
END
$$;

-- Deletes requests that have expired, the oldest first, and returns how many.
CREATE FUNCTION dovetail.prune_requests(rows_max int) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH old AS (
    SELECT r.ctid FROM dovetail.request AS r
    WHERE r.expires_at <= clock_timestamp() AND (r.status IS NOT NULL OR r.lease_until <= clock_timestamp())
    ORDER BY r.expires_at LIMIT rows_max FOR UPDATE SKIP LOCKED),
  gone AS (DELETE FROM dovetail.request AS r USING old WHERE r.ctid = old.ctid RETURNING 1)
  SELECT count(*) FROM gone
$$;

REVOKE ALL ON FUNCTION
  dovetail.request_fingerprint(text, text, bytea),
  dovetail.take_request(text, text, bytea, uuid, interval, interval, boolean, boolean),
  dovetail.begin_request(text, text, bytea, interval, boolean),
  dovetail.lease_request(text, text, bytea, interval, interval, boolean, uuid),
  dovetail.settle_request(text, text, uuid, int, text, bytea),
  dovetail.finish_request(text, text, uuid, int, text, bytea),
  dovetail.release_request(text, text, uuid), dovetail.abandon_request(text, text, uuid),
  dovetail.forget_request(text, text, text), dovetail.prune_requests(int) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 4;
