-- What the schema consists of, and what it consisted of when it was made: `dovetail doctor` compares them. Comes after
-- all migrations; safe to run again.

-- Partitions come and go, and so does the trigger of dovetail.set_backlog_limit(): they are left out. The bodies of views
-- are, too, because each version of the server writes them in its own way. The default partition follows its parent.
CREATE OR REPLACE FUNCTION dovetail.schema_objects(OUT kind text, OUT name text, OUT definition text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH relation AS (
    SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relacl,
           coalesce(pg_get_expr(c.relpartbound, c.oid), '') AS bounds
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace('dovetail') AND c.relkind IN ('r', 'p', 'v', 'S')
      AND (NOT c.relispartition OR c.relname IN ('outbox_default', 'inbox_default'))),
  part AS (SELECT * FROM relation WHERE relkind IN ('r', 'p', 'v') AND relname NOT IN ('outbox_default', 'inbox_default')),
  routine AS (
    SELECT p.*, format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS shown FROM pg_proc AS p
    WHERE p.pronamespace = to_regnamespace('dovetail')),
  -- Rights of the roles that `dovetail init --roles` makes.
  held AS (
    SELECT 'SCHEMA dovetail' AS place, n.nspacl AS acl FROM pg_namespace AS n WHERE n.nspname = 'dovetail'
    UNION ALL SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END || 'dovetail.' || relname, relacl FROM relation
    UNION ALL SELECT format('dovetail.%s (%s)', r.relname, a.attname), a.attacl
      FROM relation AS r JOIN pg_attribute AS a ON a.attrelid = r.oid WHERE a.attacl IS NOT NULL
    UNION ALL SELECT 'FUNCTION dovetail.' || shown, proacl FROM routine)
  SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END, relname::text,
         concat_ws(' ', CASE relpersistence WHEN 'u' THEN 'unlogged' END, bounds)
  FROM relation
  UNION ALL
  SELECT 'column', format('%s.%s', r.relname, a.attname),
         concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
                   CASE a.attgenerated WHEN 's' THEN 'generated' END, CASE WHEN a.attidentity <> '' THEN 'identity' END,
                   'default ' || pg_get_expr(d.adbin, d.adrelid))
  FROM part AS r JOIN pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  UNION ALL
  SELECT 'constraint', format('%s on %s', n.conname, r.relname),
         concat_ws(' ', pg_get_constraintdef(n.oid), CASE WHEN NOT n.convalidated THEN 'not valid' END)
  FROM part AS r JOIN pg_constraint AS n ON n.conrelid = r.oid AND n.contype IN ('c', 'f')
  UNION ALL
  SELECT 'domain', t.typname::text,
         (SELECT coalesce(string_agg(n.conname || ' ' || pg_get_constraintdef(n.oid), ' ' ORDER BY n.conname), '')
          FROM pg_constraint AS n WHERE n.contypid = t.oid)
  FROM pg_type AS t WHERE t.typnamespace = to_regnamespace('dovetail') AND t.typtype = 'd'
  UNION ALL
  SELECT 'index', i.relname::text,
         concat_ws(' ', pg_get_indexdef(i.oid), CASE WHEN NOT x.indisvalid THEN 'not valid' END)
  FROM part AS r JOIN pg_index AS x ON x.indrelid = r.oid JOIN pg_class AS i ON i.oid = x.indexrelid
  UNION ALL
  SELECT 'function', shown, concat_ws(' ', md5(prosrc), provolatile, prosecdef::text, proconfig::text) FROM routine
  UNION ALL
  SELECT 'trigger', format('%s on %s', t.tgname, r.relname),
         concat_ws(' ', pg_get_triggerdef(t.oid), CASE t.tgenabled WHEN 'D' THEN 'disabled' END)
  FROM part AS r JOIN pg_trigger AS t ON t.tgrelid = r.oid
  WHERE NOT t.tgisinternal AND t.tgname <> 'check_backlog'
  UNION ALL
  SELECT 'right', format('%s ON %s TO %s', g.privilege_type, held.place, o.rolname), ''
  FROM held CROSS JOIN LATERAL aclexplode(held.acl) AS g JOIN pg_roles AS o ON o.oid = g.grantee
  WHERE o.rolname IN ('dovetail_app', 'dovetail_worker', 'dovetail_relay', 'dovetail_operator')
$$;

CREATE TABLE IF NOT EXISTS dovetail.schema_made (
  kind       text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  definition text NOT NULL,
  server     int NOT NULL,   -- the server's version, which writes definitions in its own way
  PRIMARY KEY (kind, name)
);
DELETE FROM dovetail.schema_made;
INSERT INTO dovetail.schema_made (kind, name, definition, server)
SELECT kind, name, definition, current_setting('server_version_num')::int / 10000 FROM dovetail.schema_objects();
