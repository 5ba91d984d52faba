-- Version 14 of dovetail's tables in a PostgreSQL database: publishing costs less. Programs of version 11 work on.

-- Part 1: what a row of the outbox costs. The server prepares every expression of an INSERT anew, the checks of domains
-- included, so what counts is how many there are.

-- The planner computes these once, where a constant would be checked for every row. In PL/pgSQL, which a session compiles
-- once: a statement that is not prepared is planned each time.
CREATE FUNCTION dovetail.default_topic() RETURNS dovetail.topic LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN '';
END
$$;
CREATE FUNCTION dovetail.default_content_type() RETURNS dovetail.content_type LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN 'application/json';
END
$$;
CREATE FUNCTION dovetail.default_headers() RETURNS dovetail.headers LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN '';
END
$$;
-- Partitions keep theirs: a row comes in by way of its parent, whose defaults count.
ALTER TABLE ONLY dovetail.outbox
  ALTER COLUMN topic SET DEFAULT dovetail.default_topic(),
  ALTER COLUMN content_type SET DEFAULT dovetail.default_content_type(),
  ALTER COLUMN headers SET DEFAULT dovetail.default_headers();

-- Part 2: publish(). An event with nothing but what it must have takes the short road: one INSERT without further calls.

-- A text is taken for JSON; say content_type => 'text/plain' where it is not.
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  is_json boolean;
BEGIN
  IF content_type = 'application/json' THEN
    BEGIN
      is_json := payload::pg_catalog.json IS NOT NULL;
    EXCEPTION WHEN invalid_text_representation THEN
      NULL;  -- bytes_of() says so, without the payload that the server's own error would show
    END;
  END IF;
  IF is_json AND id IS NULL AND deliver_at IS NULL AND headers IS NULL AND topic = '' THEN
    id := dovetail.uuid7();
    INSERT INTO dovetail.outbox (id, aggregate_type, aggregate_id, type, payload, aggregate_version)
    VALUES (id, aggregate_type, coalesce(aggregate_id, ''), type, pg_catalog.convert_to(payload, 'UTF8'),
            coalesce(aggregate_version, 0));
    RETURN id;
  END IF;
  RETURN dovetail.add_event(
    id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
    coalesce(nullif(headers, '{}')::text, ''),
    CASE WHEN is_json THEN pg_catalog.convert_to(payload, 'UTF8') ELSE dovetail.bytes_of(payload, content_type) END,
    coalesce(aggregate_version, 0), deliver_at);
END
$$;

CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
  IF id IS NULL AND deliver_at IS NULL AND headers IS NULL AND topic = '' THEN
    id := dovetail.uuid7();
    INSERT INTO dovetail.outbox (id, aggregate_type, aggregate_id, type, content_type, payload, aggregate_version)
    VALUES (id, aggregate_type, coalesce(aggregate_id, ''), type, content_type, payload, coalesce(aggregate_version, 0));
    RETURN id;
  END IF;
  RETURN dovetail.add_event(id, coalesce(topic, ''), aggregate_type, coalesce(aggregate_id, ''), type, content_type,
                            coalesce(nullif(headers, '{}')::text, ''), payload, coalesce(aggregate_version, 0), deliver_at);
END
$$;

-- The others convert, which the planner inlines.
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id, type, pg_catalog.convert_to(payload::text, 'UTF8'), headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id bigint, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id::text, type, payload, headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id bigint, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id::text, type, pg_catalog.convert_to(payload::text, 'UTF8'), headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id bigint, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id::text, type, payload, headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id uuid, type text, payload bytea, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/octet-stream') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id::text, type, payload, headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id uuid, type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id::text, type, pg_catalog.convert_to(payload::text, 'UTF8'), headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;
CREATE OR REPLACE FUNCTION dovetail.publish(
  aggregate_type text, aggregate_id uuid, type text, payload text, headers jsonb DEFAULT NULL, topic text DEFAULT '',
  id uuid DEFAULT NULL, aggregate_version bigint DEFAULT 0, deliver_at timestamptz DEFAULT NULL,
  content_type text DEFAULT 'application/json') RETURNS uuid LANGUAGE sql AS $$
  SELECT dovetail.publish(aggregate_type, aggregate_id::text, type, payload, headers, topic, id,
                          aggregate_version, deliver_at, content_type)
$$;

UPDATE dovetail.schema_version SET version = 14;
