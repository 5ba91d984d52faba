-- Version 8: roles: publisher, worker, relay, operator.

-- Part 1: a worker acts for the consumers that it was granted, and for no other.

-- Which role may act for which consumer. Names, and no numbers: roles belong to the cluster, and a dump of this database
-- does not bring them along. A row alone gives no right: the role must also have been granted dovetail_worker.
CREATE TABLE dovetail.worker (
  consumer   text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND 255),
  role       name NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  granted_by text NOT NULL DEFAULT session_user,
  PRIMARY KEY (consumer, role)
);

-- Both run with the rights of their caller, who must own the table.
CREATE FUNCTION dovetail.grant_worker(role text, consumer text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = role) THEN
    RAISE EXCEPTION 'there is no role "%"', role
      USING ERRCODE = 'undefined_object', HINT = 'make it first: CREATE ROLE; check upper and lower case';
  END IF;
  INSERT INTO dovetail.worker (consumer, role) VALUES (consumer, role) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    INSERT INTO dovetail.audit (what, relay, subject) VALUES ('grant worker', consumer, role);
  END IF;
END
$$;
COMMENT ON FUNCTION dovetail.grant_worker(text, text) IS
'Lets a role act for a consumer: dovetail.claim(), receive(), complete(), fail(), release(), extend(). The role also needs
GRANT dovetail_worker TO it. Logins to which the role is granted may do the same. Only for the owner of the schema.
SELECT dovetail.grant_worker(''stock_service'', ''stock'');
A handler with a name of its own is a consumer: ''stock.ledger''.';

CREATE FUNCTION dovetail.revoke_worker(role text, consumer text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM dovetail.worker AS w WHERE w.role = revoke_worker.role AND w.consumer = revoke_worker.consumer;
  IF FOUND THEN
    INSERT INTO dovetail.audit (what, relay, subject)
    VALUES ('revoke worker', revoke_worker.consumer, revoke_worker.role);
  END IF;
END
$$;
COMMENT ON FUNCTION dovetail.revoke_worker(text, text) IS
'Takes back what dovetail.grant_worker() gave. Events that the worker holds come again when their leases end.';

-- In whose name a function that runs as the owner was called: the role of SET ROLE, or else the login. A function of
-- somebody else in between, also one that is SECURITY DEFINER, changes neither.
CREATE FUNCTION dovetail.acting_role() RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(nullif(current_setting('role'), 'none')::name, session_user)
$$;

-- Fails unless the caller may act for this consumer. Relays and the owner act for every consumer: who may call
-- claim_many() may. A publisher may call the functions that begin work, so that it is told here what it lacks.
CREATE FUNCTION dovetail.check_worker(consumer text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting name := dovetail.acting_role();
BEGIN
  IF has_function_privilege(
       acting, 'dovetail.claim_many(text, uuid[], timestamptz[], interval)'::regprocedure, 'EXECUTE') THEN
    RETURN;
  END IF;
  IF NOT has_function_privilege(acting, 'dovetail.complete(text, uuid, bigint)'::regprocedure, 'EXECUTE')
     OR NOT EXISTS (
       SELECT FROM dovetail.worker AS w JOIN pg_roles AS r ON r.rolname = w.role
       WHERE w.consumer = check_worker.consumer AND pg_has_role(acting, r.oid, 'USAGE')) THEN
    RAISE EXCEPTION 'the role "%" may not act for consumer "%"', acting, coalesce(consumer, 'null')
      USING ERRCODE = 'insufficient_privilege',
            HINT = format('as the owner of the schema: GRANT dovetail_worker TO %1$I; SELECT dovetail.grant_worker(%1$L, %2$L)',
                          acting, coalesce(consumer, ''));
  END IF;
END
$$;

-- The number of a consumer, which gets one at its first use.
CREATE OR REPLACE FUNCTION dovetail.consumer_id(consumer text) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_id int;
BEGIN
  PERFORM dovetail.check_worker(consumer);
  SELECT c.id INTO found_id FROM dovetail.consumer AS c WHERE c.name = consumer;
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

-- The consumer of that name, which must be there: a wrong name would look like an empty queue for ever.
CREATE FUNCTION dovetail.find_consumer(consumer text) RETURNS int
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

-- The consumer that a worker names.
CREATE OR REPLACE FUNCTION dovetail.known_consumer(consumer text) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dovetail.check_worker(consumer);
  RETURN dovetail.find_consumer(consumer);
END
$$;

CREATE OR REPLACE FUNCTION dovetail.parked_in_queue(consumer text, id uuid) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  number bigint := (SELECT q.parked_number FROM dovetail.queue AS q
                    WHERE q.event_id = id AND q.consumer_id = dovetail.find_consumer(consumer));
BEGIN
  IF number IS NULL THEN
    RAISE EXCEPTION 'event % is not parked in the queue of consumer "%"', id, consumer
      USING ERRCODE = 'no_data_found', HINT = 'see what is: SELECT * FROM dovetail.queue_parked';
  END IF;
  RETURN number;
END
$$;

-- HTTP requests belong to workers, too; a publisher is told so by the two functions that begin one.
CREATE FUNCTION dovetail.check_request_role() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting name := dovetail.acting_role();
BEGIN
  IF NOT has_function_privilege(
       acting, 'dovetail.settle_request(text, text, uuid, int, text, bytea)'::regprocedure, 'EXECUTE') THEN
    RAISE EXCEPTION 'the role "%" may not keep requests', acting
      USING ERRCODE = 'insufficient_privilege',
            HINT = format('as the owner of the schema: GRANT dovetail_worker TO %I', acting);
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.begin_request(
  scope text, key text, fingerprint bytea, keep interval DEFAULT '24 hours', wait boolean DEFAULT false,
  OUT state text, OUT token uuid, OUT status int, OUT headers text, OUT body bytea, OUT retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own uuid := gen_random_uuid();
BEGIN
  PERFORM dovetail.check_request_role();
  SELECT t.state, t.status, t.headers, t.body, t.retry_after
  INTO begin_request.state, begin_request.status, begin_request.headers, begin_request.body, begin_request.retry_after
  FROM dovetail.take_request(begin_request.scope, begin_request.key, begin_request.fingerprint, own, NULL,
                             begin_request.keep, begin_request.wait, false) AS t;
  IF begin_request.state = 'first' THEN
    begin_request.token := own;
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION dovetail.lease_request(
  scope text, key text, fingerprint bytea, lease interval DEFAULT '1 minute', keep interval DEFAULT '24 hours',
  retry_unknown boolean DEFAULT false, INOUT token uuid DEFAULT NULL,
  OUT state text, OUT status int, OUT headers text, OUT body bytea, OUT retry_after interval, OUT attempts int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dovetail.check_request_role();
  lease_request.token := coalesce(lease_request.token, gen_random_uuid());
  SELECT t.state, t.status, t.headers, t.body, t.retry_after, t.attempts
  INTO lease_request.state, lease_request.status, lease_request.headers, lease_request.body, lease_request.retry_after,
       lease_request.attempts
  FROM dovetail.take_request(lease_request.scope, lease_request.key, lease_request.fingerprint, lease_request.token,
                             coalesce(lease_request.lease, '1 minute'), lease_request.keep, false,
                             lease_request.retry_unknown) AS t;
  IF lease_request.state <> 'first' THEN
    lease_request.token := NULL;
  ELSIF NOT EXISTS (SELECT FROM dovetail.request AS r
                    WHERE r.scope = lease_request.scope AND r.key = lease_request.key AND r.token = lease_request.token
                      AND r.expires_at > clock_timestamp()) THEN
    RAISE EXCEPTION 'the token % of the request "%" is used up: it was released, or has expired', token, key
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'begin the request again with a new token';
  END IF;
END
$$;

-- The row stays, expired, until it is pruned. A call with the same token whose caller no longer waits may still be on
-- its way, and finds that it is late; without the row it would take the request, and nobody would run it.
CREATE OR REPLACE FUNCTION dovetail.release_request(scope text, key text, token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dovetail.request AS r SET lease_until = '-infinity', expires_at = '-infinity'
  WHERE r.scope = release_request.scope AND r.key = release_request.key AND r.token = release_request.token
    AND r.status IS NULL AND r.expires_at > '-infinity';
  RETURN FOUND;
END
$$;

CREATE OR REPLACE VIEW dovetail.requests AS
SELECT scope, key, CASE WHEN status IS NOT NULL THEN 'finished'
                        WHEN lease_until > clock_timestamp() THEN 'running' ELSE 'unknown' END AS state,
       attempts, status, octet_length(body) AS body_bytes, created_at, finished_at, expires_at
FROM dovetail.request WHERE expires_at > '-infinity';

-- Part 2: an operator decides through functions, each of which writes the audit: who did it is the login, what was done
-- and to how many events is said by the function itself.

CREATE FUNCTION dovetail.shown_filter(key text, aggregate_type text, type text, reason_contains text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(nullif(concat_ws(', ', 'key "' || nullif(key, '') || '"',
    'aggregate_type "' || nullif(aggregate_type, '') || '"', 'type "' || nullif(type, '') || '"',
    'reason contains "' || nullif(reason_contains, '') || '"'), ''), 'all')
$$;

-- The parked events of queues that match: their numbers.
CREATE FUNCTION dovetail.queue_matching(
  of_relay text, of_id uuid, of_key text, of_aggregate_type text, of_type text, reason_contains text) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(q.number), '{}') FROM dovetail.queue_parked AS q
  WHERE (of_relay = '' OR q.consumer = of_relay) AND (of_id IS NULL OR q.id = of_id)
    AND (of_key = '' OR q.aggregate_id = of_key) AND (of_aggregate_type = '' OR q.aggregate_type = of_aggregate_type)
    AND (of_type = '' OR q.type = of_type) AND (reason_contains = '' OR strpos(q.reason, reason_contains) > 0)
$$;

-- For programs of dovetail. Sets parked heads going again, of relays and of queues. `of_id` null: all that match; an
-- empty text matches all. Returns how many; 0 leaves no trace.
CREATE FUNCTION dovetail.replay_parked(
  of_relay text, of_id uuid, of_key text, of_aggregate_type text, of_type text, reason_contains text, why text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  replayed bigint;
BEGIN
  UPDATE dovetail.parked AS p
  SET state = 'waiting', attempts = 0, retry_at = clock_timestamp(), note = 'replay asked for'
  WHERE p.at_head AND p.finished_at IS NULL AND (of_relay = '' OR p.relay = of_relay) AND (of_id IS NULL OR p.id = of_id)
    AND (of_key = '' OR p.aggregate_id = of_key) AND (of_aggregate_type = '' OR p.aggregate_type = of_aggregate_type)
    AND (of_type = '' OR p.type = of_type) AND (reason_contains = '' OR strpos(p.reason, reason_contains) > 0);
  GET DIAGNOSTICS replayed = ROW_COUNT;
  replayed := replayed + dovetail.queue_replay(dovetail.queue_matching(
    of_relay, of_id, of_key, of_aggregate_type, of_type, reason_contains));
  IF replayed > 0 THEN
    INSERT INTO dovetail.audit (what, relay, subject, events, reason)
    VALUES ('replay', of_relay,
            coalesce(of_id::text, dovetail.shown_filter(of_key, of_aggregate_type, of_type, reason_contains)),
            replayed, left(coalesce(why, ''), 2000));
  END IF;
  RETURN replayed;
END
$$;

-- For programs of dovetail. Gives events up, for good. Of one id only a head; of those that match all, also what waits
-- behind, unless `heads_only`. `followers`: of a queue what waits behind, too. Returns how many; 0 leaves no trace.
CREATE FUNCTION dovetail.discard_parked(
  of_relay text, of_id uuid, of_key text, of_aggregate_type text, of_type text, reason_contains text, heads_only boolean,
  followers boolean, why text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  discarded bigint := 0;
  gone      record;
BEGIN
  IF coalesce(btrim(why), '') = '' THEN
    RAISE EXCEPTION 'a discard needs a reason'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'say why the event is given up: the reason is kept';
  END IF;
  why := left(why, 2000);
  FOR gone IN
    WITH discard AS (
      UPDATE dovetail.parked AS p
      SET state = 'discarded', at_head = false, finished_at = clock_timestamp(), note = why
      WHERE p.finished_at IS NULL AND (p.at_head OR NOT (heads_only OR of_id IS NOT NULL))
        AND (of_relay = '' OR p.relay = of_relay) AND (of_id IS NULL OR p.id = of_id)
        AND (of_key = '' OR p.aggregate_id = of_key) AND (of_aggregate_type = '' OR p.aggregate_type = of_aggregate_type)
        AND (of_type = '' OR p.type = of_type) AND (reason_contains = '' OR strpos(p.reason, reason_contains) > 0)
      RETURNING p.relay, p.aggregate_type, p.aggregate_id)
    SELECT d.relay, count(*) AS events, array_agg(d.aggregate_type) AS types, array_agg(d.aggregate_id) AS ids
    FROM discard AS d GROUP BY d.relay ORDER BY d.relay
  LOOP
    discarded := discarded + gone.events;
    PERFORM dovetail.refresh_heads(gone.relay, gone.types, gone.ids);
  END LOOP;
  discarded := discarded + dovetail.queue_discard(dovetail.queue_matching(
    of_relay, of_id, of_key, of_aggregate_type, of_type, reason_contains), followers, why);
  IF discarded > 0 THEN
    INSERT INTO dovetail.audit (what, relay, subject, events, reason)
    VALUES ('discard', of_relay,
            coalesce(of_id::text, dovetail.shown_filter(of_key, of_aggregate_type, of_type, reason_contains)),
            discarded, why);
  END IF;
  RETURN discarded;
END
$$;

-- For programs of dovetail, before they drop a slot. The right to drop it is the login's own, so this function does not do
-- it. False: there is no such slot.
CREATE FUNCTION dovetail.note_slot_drop(slot text, of_relay text) RETURNS boolean
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
  VALUES ('drop slot', coalesce((SELECT min(r.relay) FROM dovetail.reader AS r WHERE r.relay = of_relay), ''), slot);
  RETURN true;
END
$$;

-- Only a decision discards, and a decision is written down. A relay writes to this table, and might do it, too. In the
-- functions above the user is the owner.
CREATE FUNCTION dovetail.refuse_discard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_has_role(current_user, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = TG_RELID), 'USAGE') THEN
    RAISE EXCEPTION 'only an operator discards an event'
      USING ERRCODE = 'insufficient_privilege', HINT = 'use `dovetail parked discard`, which keeps the reason';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER refuse_discard BEFORE INSERT OR UPDATE OF state ON dovetail.parked
  FOR EACH ROW WHEN (NEW.state = 'discarded') EXECUTE FUNCTION dovetail.refuse_discard();

-- Part 3: publishing. What is declared as JSON and given as text must be JSON, and ids of aggregates may be numbers.

-- The bytes of the text, unchanged. The server's own error would show a part of the payload, also in its log.
CREATE FUNCTION dovetail.bytes_of(payload text, content_type text) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  parsed json;
BEGIN
  IF payload <> '' AND (content_type = 'application/json' OR content_type ~* '^[^;]*[/+]json[ \t]*(;|$)') THEN
    BEGIN
      parsed := payload::json;
    EXCEPTION WHEN invalid_text_representation THEN
      RAISE EXCEPTION 'the payload is declared as % and is not valid JSON', content_type
        USING ERRCODE = 'invalid_text_representation',
              HINT = 'check the payload, or say what it is: content_type => ''text/plain''';
    END;
  END IF;
  RETURN convert_to(payload, 'UTF8');
END
$$;

-- A text is taken for JSON; say content_type => 'text/plain' where it is not.
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), dovetail.bytes_of(payload, content_type),
                            coalesce(aggregate_version, 0), deliver_at)
$$;

-- The same for ids that are numbers or UUIDs. A literal in quotes is a text, for which the functions above are taken.
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id bigint, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id::text, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), payload,
                            coalesce(aggregate_version, 0), deliver_at)
$$;
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id bigint, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id::text, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), pg_catalog.convert_to(payload::text, 'UTF8'),
                            coalesce(aggregate_version, 0), deliver_at)
$$;
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id bigint, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id::text, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), dovetail.bytes_of(payload, content_type),
                            coalesce(aggregate_version, 0), deliver_at)
$$;
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id uuid, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id::text, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), payload,
                            coalesce(aggregate_version, 0), deliver_at)
$$;
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id uuid, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id::text, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), pg_catalog.convert_to(payload::text, 'UTF8'),
                            coalesce(aggregate_version, 0), deliver_at)
$$;
CREATE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id uuid, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id::text, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), dovetail.bytes_of(payload, content_type),
                            coalesce(aggregate_version, 0), deliver_at)
$$;

REVOKE ALL ON FUNCTION dovetail.grant_worker(text, text), dovetail.revoke_worker(text, text), dovetail.acting_role(),
  dovetail.check_worker(text), dovetail.find_consumer(text), dovetail.check_request_role(),
  dovetail.shown_filter(text, text, text, text), dovetail.queue_matching(text, uuid, text, text, text, text),
  dovetail.replay_parked(text, uuid, text, text, text, text, text),
  dovetail.discard_parked(text, uuid, text, text, text, text, boolean, boolean, text),
  dovetail.note_slot_drop(text, text), dovetail.refuse_discard(), dovetail.bytes_of(text, text),
  dovetail.publish(text, bigint, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, bigint, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, bigint, text, text, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, uuid, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, uuid, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, uuid, text, text, jsonb, text, uuid, bigint, timestamptz, text) FROM PUBLIC;

UPDATE dovetail.schema_version SET version = 8;
