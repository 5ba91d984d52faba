-- Roles with as few rights as their work needs; whoever ran the schema owns everything. Safe to run again, and takes back
-- what earlier versions gave. Give one to a login: GRANT dovetail_app TO shop;
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['dovetail_app', 'dovetail_worker', 'dovetail_relay', 'dovetail_operator'] LOOP
    -- Roles belong to the whole cluster: another database may have made it. Who finds it needs no CREATEROLE.
    CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted);
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
    EXCEPTION
      WHEN duplicate_object OR unique_violation THEN
        NULL;  -- made by another in this moment
      WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role % is not there, and this user may not make it', wanted
          USING ERRCODE = 'insufficient_privilege',
                HINT = format('by a user who may: CREATE ROLE %I NOLOGIN; then run this again', wanted);
    END;
  END LOOP;
END
$$;

REVOKE ALL ON ALL TABLES IN SCHEMA dovetail FROM dovetail_app, dovetail_worker, dovetail_relay, dovetail_operator;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA dovetail FROM dovetail_app, dovetail_worker, dovetail_relay, dovetail_operator;
REVOKE ALL ON ALL ROUTINES IN SCHEMA dovetail FROM dovetail_app, dovetail_worker, dovetail_relay, dovetail_operator;
REVOKE ALL ON SCHEMA dovetail FROM dovetail_app, dovetail_worker, dovetail_relay, dovetail_operator;
GRANT USAGE ON SCHEMA dovetail TO dovetail_app, dovetail_worker, dovetail_relay, dovetail_operator;

-- Publishes: it reads no payload of the outbox, not even its own, and chooses neither order nor visibility.
GRANT EXECUTE ON FUNCTION
  dovetail.publish(text, text, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, text, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, text, text, text, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, bigint, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, bigint, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, bigint, text, text, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, uuid, text, bytea, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, uuid, text, jsonb, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.publish(text, uuid, text, text, jsonb, text, uuid, bigint, timestamptz, text),
  dovetail.bytes_of(text, text),
  dovetail.check_published(uuid, text, text, text, text, text, text, bytea, bigint),
  dovetail.delay(uuid, text, text, text, text, text, text, bytea, bigint, timestamptz),
  dovetail.add_event(uuid, text, text, text, text, text, text, bytea, bigint, timestamptz) TO dovetail_app;
GRANT INSERT (id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version)
  ON dovetail.outbox TO dovetail_app;
GRANT USAGE ON SEQUENCE dovetail.outbox_seq TO dovetail_app;

-- Works: takes, completes and fails events of the consumers that dovetail.grant_worker() gave to it, and HTTP requests,
-- through these functions alone. A stored answer is seen only by who knows the scope, the key and the request.
GRANT EXECUTE ON FUNCTION
  dovetail.claim(text, uuid), dovetail.claim(text, uuid, interval), dovetail.receive(text, int, interval, int),
  dovetail.complete(text, uuid, bigint), dovetail.complete_many(text, uuid[], bigint[]),
  dovetail.fail(text, uuid, bigint, text, interval, boolean), dovetail.release(text, uuid, bigint),
  dovetail.extend(text, uuid, bigint, interval) TO dovetail_worker;
GRANT EXECUTE ON FUNCTION dovetail.request_fingerprint(text, text, bytea),
  dovetail.begin_request(text, text, bytea, interval, boolean),
  dovetail.lease_request(text, text, bytea, interval, interval, boolean, uuid),
  dovetail.settle_request(text, text, uuid, int, text, bytea), dovetail.finish_request(text, text, uuid, int, text, bytea),
  dovetail.release_request(text, text, uuid), dovetail.abandon_request(text, text, uuid),
  dovetail.prune_requests(int) TO dovetail_worker, dovetail_relay;

-- A gateway refuses a schema that is too new for it.
GRANT SELECT ON dovetail.schema_version TO dovetail_worker;

-- These refuse a publisher, and tell it what it lacks; without the right to call them the server would only say that it is
-- missing. See dovetail.check_worker().
GRANT EXECUTE ON FUNCTION
  dovetail.claim(text, uuid), dovetail.claim(text, uuid, interval), dovetail.receive(text, int, interval, int),
  dovetail.begin_request(text, text, bytea, interval, boolean),
  dovetail.lease_request(text, text, bytea, interval, interval, boolean, uuid) TO dovetail_app;

-- Reads events and keeps its own progress.
GRANT SELECT ON dovetail.schema_version, dovetail.schema_made, dovetail.outbox, dovetail.delayed, dovetail.outbox_limit,
  dovetail.server_mark TO dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.mark_server() TO dovetail_relay;
GRANT SELECT ON SEQUENCE dovetail.outbox_seq TO dovetail_relay;
-- Its lanes, but not which there are, nor what an operator ordered: see dovetail.refuse_order().
GRANT SELECT, INSERT (relay, lane, lanes, source, window_start, passed_seq, system_identifier),
  UPDATE (owner, epoch, lease_term, expires, hold, target, filter, window_start, window_end, window_seq, passed_seq,
          system_identifier, slot, slot_timeline, slot_reported, reads_wal, reads_why, reads_since, delivered_total,
          parked_total, replayed_total, skipped_total, updated_at, sample_at, sample_total, previous_at, previous_total)
  ON dovetail.relay_lane TO dovetail_relay;
-- `dovetail reconcile` asks it since when events are retained.
GRANT SELECT ON dovetail.outbox_default TO dovetail_relay;
-- What it delivered and when is not for it to change, nor the time for it to choose.
GRANT INSERT (relay, owner, first_bucket, last_bucket, first_seq, last_seq, events, places) ON dovetail.receipt
  TO dovetail_relay;
-- It parks events and ends that, but neither renames one nor gives it to another relay; only a decision discards.
GRANT SELECT,
  INSERT (relay, id, position, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version,
          created_at, state, at_head, attempts, reason, retry_at),
  UPDATE (position, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version,
          created_at, state, at_head, attempts, reason, note, parked_at, retry_at, finished_at, row_id, row_state)
  ON dovetail.parked TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON dovetail.relay_process TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE ON dovetail.relay_state, dovetail.mapped_backlog TO dovetail_relay;
GRANT SELECT ON dovetail.events, dovetail.lag TO dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.matches(jsonb, text), dovetail.passes_filter(jsonb, text, text, text, text)
  TO dovetail_relay, dovetail_operator;
GRANT EXECUTE ON FUNCTION dovetail.read_window(xid8, xid8[], int, int, bigint, bigint),
  dovetail.window_bounds(xid8, xid8[], xid8), dovetail.release_delayed(int), dovetail.adopt_foreign_rows(int), dovetail.backlog(),
  dovetail.refresh_heads(text, text[], text[]) TO dovetail_relay;

-- A consumer's inbox: its rows, its attempts and its counts. Its handlers' own tables need rights of their own.
GRANT SELECT, INSERT (name) ON dovetail.consumer TO dovetail_relay;
GRANT SELECT, INSERT (event_id, consumer_id, digest, available_at) ON dovetail.inbox TO dovetail_relay;
GRANT SELECT ON dovetail.inbox_state, dovetail.claim, dovetail.forgetting TO dovetail_relay;
GRANT SELECT, INSERT (event_id, consumer_id), DELETE ON dovetail.unapplied TO dovetail_relay;
GRANT EXECUTE ON FUNCTION dovetail.time_of(uuid) TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE ON dovetail.consumer_session TO dovetail_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON dovetail.attempt, dovetail.applied_version TO dovetail_relay;
GRANT SELECT, INSERT, DELETE ON dovetail.commit_guard TO dovetail_relay;

-- Events that it holds for handlers outside the transaction, and those that it puts into queues.
GRANT EXECUTE ON FUNCTION
  dovetail.claim_many(text, uuid[], timestamptz[], interval),
  dovetail.claim_many(text, uuid[], timestamptz[], bigint[], interval), dovetail.complete_claims(text, uuid[], bigint[]),
  dovetail.release_claims(text, uuid[], bigint[], text),
  dovetail.enqueue(text, uuid[], text[], text[], text[], text[], text[], text[], bytea[], bigint[], timestamptz[])
  TO dovetail_relay;

GRANT SELECT ON dovetail.queue, dovetail.queues, dovetail.queue_parked, dovetail.worker TO dovetail_relay;

-- Looks, and decides through functions that write the audit; publishes nothing and changes no row. Answers of HTTP requests, and the tokens of those that run, are not for it.
GRANT SELECT ON ALL TABLES IN SCHEMA dovetail TO dovetail_operator;
REVOKE SELECT ON dovetail.request FROM dovetail_operator;
GRANT SELECT ON SEQUENCE dovetail.outbox_seq TO dovetail_operator;
GRANT EXECUTE ON FUNCTION dovetail.backlog(), dovetail.replay(text, uuid), dovetail.discard(text, uuid, text),
  dovetail.replay_parked(text, uuid, text, text, text, text, text),
  dovetail.discard_parked(text, uuid, text, text, text, text, boolean, boolean, text),
  dovetail.deliver_again(text, uuid, text), dovetail.forget_event(text, uuid, text),
  dovetail.apply_event(text, uuid, text), dovetail.remember_since(timestamptz, text),
  dovetail.forget_request(text, text, text), dovetail.note_slot_drop(text, text),
  dovetail.cancel_delayed(uuid, text), dovetail.retarget_relay(text, text, text),
  dovetail.hold_relay(text, text, text), dovetail.seek_relay(text, bigint, text, text, boolean),
  dovetail.rename_relay(text, text, text), dovetail.forget_relay(text, text),
  dovetail.note_reveal(uuid, text), dovetail.note_edit(uuid, uuid, text),
  dovetail.note_refusal(text, bigint, text) TO dovetail_operator;

-- For `dovetail doctor`.
DELETE FROM dovetail.schema_made WHERE kind = 'right';
INSERT INTO dovetail.schema_made (kind, name, definition, server)
SELECT kind, name, definition, current_setting('server_version_num')::int / 10000 FROM dovetail.schema_objects()
WHERE kind = 'right';
