"""Every function of the SQL API, called with odd arguments on a real server: it answers, or says clearly what is wrong."""

import os
import pathlib
import subprocess

import harness

STATE = pathlib.Path(os.environ.get("DOVETAIL_SERVERS", "servers"))
PER_FUNCTION = 5000 if os.environ.get("DOVETAIL_CHAOS") else 30

# What each type is tried with; a type that is missing here is tried with null.
ODD = {
    "text": ["NULL", "''", "'a'", "'orders'", "repeat('x', 300)", "repeat(chr(233), 2000)", "E'\\n\\t'", "''''", "'{}'",
             "'\"'", "'%s'", "U&'\\FFFD'", "'018f2b1e-7b0a-7000-8000-000000000001'", "'../x'", "'-1'"],
    "uuid": ["NULL", "'00000000-0000-0000-0000-000000000000'::uuid", "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid",
             "gen_random_uuid()"],
    "bytea": ["NULL", "''::bytea", "'\\x00ff'::bytea", "convert_to(repeat('y', 70000), 'UTF8')"],
    "jsonb": ["NULL", "'null'::jsonb", "'[]'::jsonb", "'{}'::jsonb", "'\"x\"'::jsonb", "'{\"a\": {\"b\": [1]}}'::jsonb",
              "'{\"a\": null}'::jsonb", "(repeat('[', 2000) || repeat(']', 2000))::jsonb"],
    "integer": ["NULL", "0", "-1", "1", "2147483647", "-2147483648"],
    "smallint": ["NULL", "0::smallint", "'-32768'::smallint", "32767::smallint"],
    "bigint": ["NULL", "0::bigint", "(-1)::bigint", "1::bigint", "9223372036854775807", "'-9223372036854775808'::bigint"],
    "boolean": ["NULL", "true", "false"],
    "interval": ["NULL", "interval '0'", "interval '-1 day'", "interval '1 ms'", "interval '178000000 years'"],
    "timestamp with time zone": ["NULL", "'infinity'::timestamptz", "'-infinity'::timestamptz", "now()",
                                 "'4713-01-01 00:00:00+00 BC'::timestamptz", "'294276-12-31'::timestamptz"],
    "text[]": ["NULL", "'{}'::text[]", "ARRAY[NULL]::text[]", "ARRAY['a', '', 'a']", "ARRAY[['a'], ['b']]"],
    "uuid[]": ["NULL", "'{}'::uuid[]", "ARRAY[NULL]::uuid[]", "ARRAY[gen_random_uuid()]"],
    "bigint[]": ["NULL", "'{}'::bigint[]", "ARRAY[NULL]::bigint[]", "ARRAY[1, -1]::bigint[]"],
    "regclass": ["NULL", "'pg_class'::regclass"],
    "name": ["NULL", "'postgres'::name", "''::name"],
}
# Classes of SQLSTATE that nobody may see: an internal error, a corrupted database, a crash.
NEVER = ("XX", "57P02", "58")

CALLS = """
SET client_min_messages = error;
SET lock_timeout = '2s';
SET statement_timeout = '60s';
SELECT setseed(0.%(seed)d);
CREATE TEMP TABLE IF NOT EXISTS found (call text, state text, message text);
DO $odd$
DECLARE
  choices text[][];
  call text;
  result text;
  said text;
BEGIN
  FOR i IN 1..%(count)d LOOP
    call := %(call)s;
    BEGIN
      EXECUTE call;
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS result = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
      INSERT INTO found VALUES (left(call, 400), result, said);
    END;
  END LOOP;
END $odd$;
SELECT state || E'\\t' || coalesce(message, '') || E'\\t' || call FROM found
WHERE state LIKE 'XX%%' OR state LIKE '58%%' OR state = '57P02' OR coalesce(message, '') = '' LIMIT 5;
SELECT 'tried';
"""

FUNCTIONS = """
SELECT p.oid, n.nspname || '.' || quote_ident(p.proname), p.prokind,
  coalesce((SELECT string_agg(format_type(t.type, NULL), ';' ORDER BY t.place)
            FROM unnest(p.proargtypes) WITH ORDINALITY AS t(type, place)), ''),
  coalesce(array_to_string(p.proargnames, ';'), '')
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'dovetail' AND p.prorettype <> 'trigger'::regtype AND p.prorettype <> 'event_trigger'::regtype
ORDER BY 2, 1
"""


def first_line(name):
    path = STATE / name
    return path.read_text(encoding="utf-8").splitlines()[0] if path.exists() else ""


SERVER = first_line("postgres.conninfo")


class OddArguments(harness.Case):
    def setUp(self):
        if not SERVER:
            self.skipTest("PostgreSQL is not there")
        super().setUp()
        self.database = f"odd_{os.getpid()}"
        self.psql(f"CREATE DATABASE {self.database}", SERVER)
        self.addCleanup(self.psql, f"DROP DATABASE {self.database} WITH (FORCE)", SERVER)
        self.store = f"{SERVER} dbname={self.database}"
        self.write("dovetail.toml", f'[store.shop]\nurl = "postgres:{self.store}"\n')
        self.dovetail("init", "--roles")

    @staticmethod
    def psql(sql, conninfo):
        return subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-", conninfo], input=sql, check=False,
                              capture_output=True, text=True, timeout=harness.PATIENCE_S * 2)

    @staticmethod
    def argument(type_, name):
        odd = ODD.get(type_, ["NULL"])
        if "wait" in name or "timeout" in name:
            odd = ["NULL", "interval '0'", "interval '-1 day'"] if type_ == "interval" else odd
        choices = ", ".join("$v$" + one + "$v$" for one in odd)
        return f"(ARRAY[{choices}])[1 + floor(random() * {len(odd)})::int] || '::{type_}'"

    def test_every_function_answers_or_says_what_is_wrong(self):
        listed = self.psql(FUNCTIONS, self.store)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        functions = [line.split("|") for line in listed.stdout.splitlines()]
        self.assertGreater(len(functions), 20)
        for number, (_, name, kind, types, names) in enumerate(functions):
            types = types.split(";") if types else []
            names = names.split(";") + [""] * len(types)
            arguments = " || ', ' || ".join(self.argument(*one) for one in zip(types, names)) or "''"
            verb = "CALL " if kind == "p" else "SELECT "
            call = f"'{verb}{name}(' || {arguments} || ')'"
            count = PER_FUNCTION if types else 1
            done = self.psql(CALLS % {"seed": number + 1, "count": count, "call": call}, self.store)
            with self.subTest(name):
                self.assertEqual(done.returncode, 0, (name, types, done.stderr))
                self.assertEqual(done.stdout.splitlines(), ["", "tried"], (name, types, done.stdout))
        # And it works as before, once the limits that were set by chance are lifted.
        self.assertEqual(self.psql("SELECT dovetail.set_backlog_limit(NULL)", self.store).returncode, 0)
        self.publish(store="shop")


if __name__ == "__main__":
    harness.main()
