"""A daemon on PostgreSQL: a relay in lanes, a relay in the WAL whose broker is away, and a consumer with two kinds of
handlers, one of which fails at some events."""

import json
import socket
import time
import unittest

import postgres_test
import scene

CONFIG = """\
[store.shop]
url = "postgres:{conninfo}"

[store.files]
url = "sqlite:files.db"

[store.bus]
url = "redis://127.0.0.1:{away}/0"

[[relay]]
name = "shop-to-files"
from = "shop"
to = "files"
lanes = 4
lease = "2s"
retry_base = "5ms"

[[relay]]
name = "shop-to-bus"
from = "shop"
to = "bus"
mode = "wal"
lease = "2s"
retry_base = "5ms"
reconnect_cap = "500ms"

[[consumer]]
name = "stock"
from = "shop"
to = "shop"
lease = "2s"
attempts_max = 2
retry_base = "5ms"
retry_cap = "50ms"

[[consumer.handler]]
name = "ledger"
kind = "sql"
function = "public.take"

[[consumer.handler]]
name = "mail"
kind = "queue"
types = ["OrderPlaced"]

[alerts]
away_max = "1s"

[log]
format = "json"

[http]
listen = "127.0.0.1:0"
tokens_file = "tokens"
"""
FUNCTION = """
CREATE TABLE taken (id uuid);
CREATE FUNCTION public.take(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF event.type = 'Broken' THEN RAISE EXCEPTION 'no such article'; END IF;
  INSERT INTO taken VALUES (event.id);
END $$;
GRANT ALL ON taken TO PUBLIC;
"""
MENDED = "CREATE OR REPLACE FUNCTION public.take(event dovetail.event) RETURNS void LANGUAGE sql AS 'INSERT INTO taken VALUES (event.id)'"
FAR = "2200-01-01T00:00:00Z"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class PostgresScene(scene.SceneCase, postgres_test.PostgresCase):
    """The consumer parks two events of type Broken, and one waits behind the first."""

    config = CONFIG

    def begin(self):
        self.config = self.config.replace("{conninfo}", self.conninfo).replace("{away}", str(free_port()))
        self.write("dovetail.toml", self.config)
        self.write_tokens()
        self.init()
        self.sql(FUNCTION)
        self.good = [self.event(key) for key in (17, 18, 19)]
        self.delayed = self.publish_id("--deliver-at", FAR, store="shop", key="20")
        self.broken = [self.event(key, "Broken") for key in ("a", "a", "b")]  # the second waits behind the first
        self.daemon = self.start_daemon()
        asked_at = 0

        def are_parked():
            nonlocal asked_at
            if time.monotonic() > asked_at + 0.5:
                self.event("others")  # A key is poison only where others pass.
                asked_at = time.monotonic()
            return self.relay("stock")["parked"] == 2 and self.relay("stock")["waiting"] == 1
        self.wait_for("two are parked, and one waits", are_parked)
        self.wait_for("all others are delivered", lambda: self.relay("stock")["pending"] == 0 and
                      self.relay("shop-to-files")["pending"] == 0)

    def event(self, key, kind="OrderPlaced"):
        return self.sql(f"SELECT dovetail.publish('orders', '{key}', '{kind}', '{json.dumps({'secret': scene.CANARY})}'::jsonb)")

    def relay(self, name):
        """As the daemon says it; it looks every second."""
        stores = self.get("status")["stores"]
        return next((one for store in stores for one in store["relays"] if one["name"] == name),
                    {"delivered_total": 0, "parked": 0, "waiting": 0, "pending": None, "state": ""})

    def mend(self):
        """The handler takes everything from now on."""
        self.sql(MENDED)
