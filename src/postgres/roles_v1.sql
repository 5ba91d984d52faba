-- Roles with as few rights as their work needs; whoever ran the schema owns everything. Safe to run again.
-- Give one to a login: GRANT dovetail_app TO shop;
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['dovetail_app', 'dovetail_relay', 'dovetail_operator'] LOOP
    -- Roles belong to the whole cluster: another database may have made it. Who finds it needs no CREATEROLE.
    CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted);
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;  -- made by another in this moment
    END;
  END LOOP;
END
$$;

GRANT USAGE ON SCHEMA dovetail TO dovetail_app, dovetail_relay, dovetail_operator;

-- Publishes: it reads no payload of the outbox, not even its own, and chooses neither order nor visibility.
GRANT EXECUTE ON FUNCTION
  dovetail.publish(text, text, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, text, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, text, text, text, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.check_published(uuid, text, text, text, text, text, text, bytea, bigint),
  dovetail.delay(uuid, text, text, text, text, text, text, bytea, bigint, timestamptz),
  dovetail.add_event(uuid, text, text, text, text, text, text, bytea, bigint, timestamptz) TO dovetail_app;
GRANT EXECUTE ON FUNCTION
  dovetail.emit(text, text, text, bytea, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, jsonb, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, text, jsonb, text, uuid, bigint, text),
  dovetail.emit_event(uuid, text, text, text, text, text, text, bytea, bigint) TO dovetail_app;
GRANT INSERT (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version)
  ON dovetail.outbox TO dovetail_app;
GRANT USAGE ON SEQUENCE dovetail.outbox_seq TO dovetail_app;

-- A service that applies events: through these functions alone, as the owner.
GRANT EXECUTE ON FUNCTION
  dovetail.claim(text, uuid), dovetail.claim(text, uuid, interval), dovetail.receive(text, int, interval, int),
  dovetail.complete(text, uuid, bigint), dovetail.complete_many(text, uuid[], bigint[]),
  dovetail.fail(text, uuid, bigint, text, interval, boolean), dovetail.release(text, uuid, bigint),
  dovetail.extend(text, uuid, bigint, interval) TO dovetail_app;

-- Reads events and keeps its own progress.
GRANT SELECT ON dovetail.schema_version, dovetail.schema_made, dovetail.outbox, dovetail.delayed, dovetail.outbox_limit TO dovetail_relay;
GRANT SELECT ON SEQUENCE dovetail.outbox_seq TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE ON dovetail.reader, dovetail.parked TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON dovetail.relay_process TO dovetail_relay;
GRANT SELECT ON dovetail.events, dovetail.lag TO dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.read_window(xid8, xid8[], int, int, bigint, bigint),
  dovetail.window_bounds(xid8, xid8[], xid8), dovetail.release_delayed(int), dovetail.adopt_foreign_rows(int), dovetail.backlog(),
  dovetail.refresh_heads(text, text[], text[]) TO dovetail_relay;

-- A consumer's inbox: its rows, its attempts and its counts. Its handlers' own tables need rights of their own.
GRANT SELECT, INSERT ON dovetail.consumer, dovetail.inbox TO dovetail_relay;
GRANT SELECT ON dovetail.inbox_state, dovetail.claim TO dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.time_of(uuid) TO dovetail_app, dovetail_relay;
GRANT SELECT, INSERT, UPDATE ON dovetail.consumer_lane TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON dovetail.attempt, dovetail.applied_version TO dovetail_relay;
GRANT SELECT, INSERT, DELETE ON dovetail.commit_guard TO dovetail_relay;

-- Events that it holds for handlers outside the transaction, and those that it puts into queues.
GRANT EXECUTE ON FUNCTION
  dovetail.claim_many(text, uuid[], timestamptz[], interval), dovetail.complete_claims(text, uuid[], bigint[]),
  dovetail.release_claims(text, uuid[], bigint[], text),
  dovetail.enqueue(text, uuid[], text[], text[], text[], text[], text[], text[], bytea[], bigint[], timestamptz[])
  TO dovetail_relay;

-- HTTP requests that are applied once, for services and for the gateway: a stored answer is seen only by who knows the
-- scope, the key and the request.
GRANT EXECUTE ON FUNCTION dovetail.request_fingerprint(text, text, bytea),
  dovetail.begin_request(text, text, bytea, interval, boolean),
  dovetail.lease_request(text, text, bytea, interval, interval, boolean, uuid),
  dovetail.settle_request(text, text, uuid, int, text, bytea), dovetail.finish_request(text, text, uuid, int, text, bytea),
  dovetail.release_request(text, text, uuid), dovetail.abandon_request(text, text, uuid) TO dovetail_app, dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.prune_requests(int) TO dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.forget_request(text, text, text), dovetail.forget_event(text, uuid, text),
  dovetail.deliver_again(text, uuid, text) TO dovetail_operator;

GRANT SELECT ON dovetail.queue, dovetail.queues, dovetail.queue_parked TO dovetail_relay;

-- Looks, replays and discards; publishes nothing and moves nobody's progress.
GRANT SELECT ON ALL TABLES IN SCHEMA dovetail TO dovetail_operator;
GRANT SELECT ON SEQUENCE dovetail.outbox_seq TO dovetail_operator;
GRANT UPDATE ON dovetail.parked TO dovetail_operator;
GRANT INSERT ON dovetail.audit TO dovetail_operator;
GRANT EXECUTE ON FUNCTION dovetail.backlog(), dovetail.refresh_heads(text, text[], text[]),
  dovetail.queue_replay(bigint[]), dovetail.queue_discard(bigint[], boolean, text), dovetail.replay(text, uuid),
  dovetail.discard(text, uuid, text) TO dovetail_operator;

-- For `dovetail doctor`.
DELETE FROM dovetail.schema_made WHERE kind = 'right';
INSERT INTO dovetail.schema_made (kind, name, definition, server)
SELECT kind, name, definition, current_setting('server_version_num')::int / 10000 FROM dovetail.schema_objects()
WHERE kind = 'right';
