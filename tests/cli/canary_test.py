"""A canary in the mine: secrets and payloads that are unmistakable random text go through every kind of store at the log
level debug, with right and wrong passwords, failed TLS and bad configs. Then all that was written is searched: what the
commands say, the log, metrics, pages, answers of the console, alerts, what the stores keep, command lines and
environments. No secret is anywhere, and a payload only where payloads are kept, or where somebody asked to see it."""

import base64
import concurrent.futures
import http.client
import json
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import unittest

import console
import harness
import http_test
import openapi
import postgres_test
import receiver

SERVERS = harness.ROOT / "tests/servers/servers.py"
SERVICE = harness.ROOT / "tests/cli/gateway_service.py"
VARIABLES = ("PG", "REDIS", "WRONG", "NATS", "TOKEN", "AMQP", "KAFKA", "BEARER", "BASIC", "SIGNING", "ENTRY", "PLACE", "VIEWER",
             "OPERATOR")
OTHER_ID = "0190ffff-0000-7000-8000-00000000ffff"

RELAY = """
[[relay]]
name = "to-%s"
from = "shop"
to = "%s"
reconnect_cap = "200ms"
"""

STORE = """
[store.%s]
url = "%s"
%s
"""

CONSUMER = """
[[consumer]]
name = "%s"
from = "shop"
to = "shop"
attempts_max = 1
retry_base = "5ms"
reconnect_cap = "50ms"
[[consumer.handler]]
%s
"""

# One event breaks a constraint: the server's own detail shows the row.
FUNCTIONS = """
CREATE TABLE refuses (key text CHECK (key <> '7'), payload text);
CREATE FUNCTION refuse(event dovetail.event) RETURNS void LANGUAGE sql AS $$
  INSERT INTO refuses VALUES ((event).aggregate_id, convert_from((event).payload, 'UTF8')) $$;
"""

PROGRAM = """#!/bin/sh
cat > /dev/null
{ tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' '\\n' < /proc/$$/cmdline; } >> %s/child
[ "$DOVETAIL_EVENT_KEY" != 7 ]
"""

CONSOLE = """
[http]
listen = "127.0.0.1:0"
tokens_file = "tokens"
[store.pager]
url = "http://127.0.0.1:%d/alerts/${MY_PLACE}?token=${MY_PLACE}"
password_env = "MY_BEARER"
[store.pager.settings]
secret_env = "MY_SIGNING"
allow_private = true
[alerts]
to = "pager"
away_max = "1s"
"""

GATEWAY = """
[store.answers]
url = "sqlite:answers.db"
[store.inventory]
url = "sqlite:inventory.db"
[gateway]
listen = "127.0.0.1:0"
service = "http://127.0.0.1:%d"
store = "answers"
[store.hook]
url = "http://127.0.0.1:%d/in"
password_env = "MY_ENTRY"
[[relay]]
name = "in"
from = "hook"
to = "inventory"
[log]
format = "json"
level = "debug"
"""


def canary():
    return "c4n4ry" + secrets.token_hex(12)


class Canary(postgres_test.PostgresCase, console.ConsoleCase):
    def setUp(self):
        super().setUp()
        self.secret = {name: canary() for name in VARIABLES}
        self.secret["SIGNING"] = "whsec_" + base64.b64encode(self.secret["SIGNING"].encode()).decode()
        self.payload = canary()
        self.env = {"MY_" + name: value for name, value in self.secret.items()}
        self.said = []  # (by what, what)
        self.alerts = []  # as they were posted

    def server(self, name):
        """Of its own: its users are ours."""
        state = self.folder.parent / f"{self.folder.name}-{name}"
        run = lambda action: subprocess.run([sys.executable, "-B", SERVERS, "--state", state, action, name], check=True,
                                            capture_output=True)
        run("start")
        self.addCleanup(harness.shutil.rmtree, state, ignore_errors=True)
        self.addCleanup(run, "stop")
        path = state / f"{name}.conninfo"
        if not path.exists():
            self.skipTest((state / f"{name}.missing").read_text())
        return dict(one.split("=", 1) for one in path.read_text().split())

    def everything(self):
        """The config with every kind of store, and a relay to each."""
        redis, nats = self.server("redis"), self.server("nats")
        subprocess.run(["redis-cli", "-p", redis["port"], "config", "set", "requirepass", self.secret["REDIS"]], check=True,
                       capture_output=True)
        hook, took = receiver.serve(self, lambda event: 200)
        refuser, _ = receiver.serve(self, lambda event: 400)
        pager, _ = receiver.serve(self, lambda event: 204, self.alerts)
        asks = postgres_test.AskForPassword()
        asks.start()
        self.addCleanup(asks.listener.close)
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = closed.getsockname()[1]
        quick = '[store.%s.settings]\nconnect_timeout = "500ms"\n'
        place = self.secret["PLACE"]  # some receivers know their senders by the url
        ours = "allow_private = true\n"
        stores = {
            "redis": (f"redis://127.0.0.1:{redis['port']}/0", 'password_env = "MY_REDIS"\n'),
            "wrong-redis": (f"redis://127.0.0.1:{redis['port']}/0", 'user = "full"\npassword_env = "MY_WRONG"\n'),
            "tls-redis": (f"rediss://127.0.0.1:{redis['port']}/0", 'password_env = "MY_REDIS"\n' + quick % "tls-redis"),
            "wrong-nats": (f"nats://127.0.0.1:{nats['port']}", 'user = "app"\npassword_env = "MY_NATS"\n'),
            "tls-nats": (f"nats+tls://127.0.0.1:{nats['port']}", 'password_env = "MY_TOKEN"\n' + quick % "tls-nats" +
                         "token = true\n"),
            "rabbitmq": (f"amqp://127.0.0.1:{nobody}/shop", 'user = "shop"\npassword_env = "MY_AMQP"\n' + quick % "rabbitmq"),
            "tls-rabbitmq": (f"amqps://127.0.0.1:{redis['port']}/shop", 'user = "shop"\npassword_env = "MY_AMQP"\n' +
                             quick % "tls-rabbitmq"),
            "kafka": (f"kafka://127.0.0.1:{nobody}", 'user = "shop"\npassword_env = "MY_KAFKA"\n' + quick % "kafka"),
            "tls-kafka": (f"kafka+tls://127.0.0.1:{redis['port']}", 'user = "shop"\npassword_env = "MY_KAFKA"\n' +
                          quick % "tls-kafka"),
            "hook": (f"http://127.0.0.1:{hook}/in/{place}?token={place}", 'password_env = "MY_BEARER"\n[store.hook.settings]\n'
                     'secret_env = "MY_SIGNING"\n' + ours),
            "refuser": (f"http://127.0.0.1:{refuser}/in/{place}", 'user = "shop"\npassword_env = "MY_BASIC"\n'
                        "[store.refuser.settings]\n" + ours),
            "tls-hook": (f"https://127.0.0.1:{redis['port']}/{place}?token={place}", 'password_env = "MY_BEARER"\n[store.tls-hook.settings]\n'
                         'secret_env = "MY_SIGNING"\nconnect_timeout = "500ms"\n' + ours),
        }
        self.write("program", PROGRAM % self.folder).chmod(0o755)
        self.write("tokens", f"viewer vera {self.secret['VIEWER']}\noperator olga {self.secret['OPERATOR']}\n").chmod(0o600)
        config = f'[store.shop]\nurl = "postgres:{self.conninfo}"\npassword_env = "MY_PG"\n'
        config += f'[store.asks]\nurl = "postgres:host=127.0.0.1 port={asks.port} user=shop dbname=shop"\npassword_env = "MY_PG"\n'
        config += "".join(STORE % (name, *store) + RELAY % (name, name) for name, store in stores.items())
        config += RELAY.replace('from = "shop"', 'from = "asks"') % ("nowhere", "redis")
        config += CONSUMER % ("refuse", 'kind = "sql"\nfunction = "refuse"')
        config += CONSUMER % ("program", 'kind = "command"\ncommand = ["./program"]')
        self.write("dovetail.toml", config + CONSOLE % pager + '[log]\nformat = "json"\nlevel = "debug"\n')
        return took

    def run_dovetail(self, *arguments, **more):
        done = super().run_dovetail(*arguments, **{"env": self.env, **more})
        self.said.append((" ".join(arguments), done.out + done.err))
        return done

    def run_all(self, commands):
        """At once: most of them wait for brokers that are not there. Each as text and as JSON."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda command: self.run_dovetail(*command),
                                 [(*command, *form) for command in commands for form in ((), ("--json",))]))

    def search(self, *wanted):
        """Where one of these is, as it is or encoded as a password travels."""
        for name, text in self.said:
            for one in wanted:
                for form in {one, one.removeprefix("whsec_"), base64.b64encode(one.encode()).decode().rstrip("=")[4:-4]}:
                    self.assertNotIn(form.encode(), text, f"{one} in: {name}: {text[:3000]}")

    def publish_some(self, count):
        self.sql(f"SELECT dovetail.publish('orders', n::text, 'placed', jsonb_build_object('p', '{self.payload}')) "
                 f"FROM generate_series(1, {count}) n")

    def stored(self):
        """What tables keep: payloads are bytes there, so their text is in no other column either."""
        for table in self.sql("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'dovetail' "
                              "UNION ALL SELECT 'pg_stat_activity'").split():
            self.said.append((table, self.sql(f"SELECT * FROM {table} one").encode()))

    def sign_in(self, token):
        """The cookie for it. Who has that needs no token, so it is a secret as well."""
        answer = self.call("/api/v1/session", "POST", {"Content-Type": "application/json"}, json.dumps({"token": token}))
        self.said.append(("a sign-in", answer.body.encode()))
        if answer.status != 200:
            return None
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        self.assertNotIn(token, cookie)
        self.secret["COOKIE"] = cookie.split(".")[1]
        return cookie

    def bodies(self, event):
        """Of all changes that the console offers, by the end of their paths."""
        dry = {"reason": "x", "dry_run": True}
        return {"session": {"token": self.secret["WRONG"]}, "reveal": {"reason": "x"}, "doctor": {}, "pause": dry, "drain": dry,
                "resume": dry, "seek": {"to": "now", **dry}, "rename": {"new_name": "other", **dry}, "forget": dry, "stop": {},
                "cancel": {"reason": "x"}, "reconcile": {"outbox": "shop", "inbox": "shop", "consumer": "refuse"}, "replay": {"ids": [event], **dry}, "discard": {"ids": [event], **dry},
                "edit": {"id": OTHER_ID, "payload": self.payload, "headers": {"a": "b"}, "reason": "x"}}  # it is not JSON

    def ask_console(self, event):
        """Everything, as everybody. Only the payload that an operator asks for is shown."""
        self.assertIsNone(self.sign_in(self.secret["WRONG"]))
        bearer = lambda name: {"Authorization": "Bearer " + self.secret[name]}
        everybody = {"nobody": {}, "a stranger": bearer("WRONG"), "a viewer": bearer("VIEWER"), "an operator": bearer("OPERATOR"),
                     "a browser": {"Cookie": self.sign_in(self.secret["OPERATOR"]), "Origin": f"http://127.0.0.1:{self.port}"}}
        group = self.call("/api/v1/parked", headers=everybody["an operator"]).json()["groups"][0]["id"]
        bodies, revealed = self.bodies(event), []
        calls = [(method, path) for method, path, _ in openapi.Description(self.call("/api/v1/openapi.json").json()).calls()]
        calls += [("GET", path) for path in ("/metrics", "/readyz", "/livez", "/", f"/api/v1/events?token={self.secret['WRONG']}")]
        calls += [("GET", path) for path in re.findall(r'(?:src|href)="(/[^"]+)"', self.call("/").body)]
        calls += [("GET", f"/{self.secret['WRONG']}/../")]
        self.assertGreaterEqual(len(calls), 40)
        for who, headers in everybody.items():
            for method, template in calls:
                path = template.replace("{id}", event).replace("{group}", group).replace("{name}", "to-hook")
                body = None if method == "GET" else json.dumps(bodies[path.rsplit("/", 1)[1]])
                answer = self.call(path, method, {**headers, **({"Content-Type": "application/json"} if body else {})}, body)
                self.assertNotEqual(answer.status, 500, (who, path, answer))
                if who == "an operator" and path != "/api/v1/session" and not path.endswith(("/rename", "/forget")):
                    self.assertNotIn(answer.status, (401, 403), (path, answer))
                text = f"{answer.headers} {answer.body}".encode()
                if template.endswith("/reveal") and answer.status == 200:
                    revealed.append((who, text))
                else:
                    self.said.append((f"{who}: {method} {template}", text))
        said, self.said = self.said, revealed
        self.assertEqual([who for who, _ in revealed], ["an operator", "a browser"])
        self.search(*self.secret.values())
        with self.assertRaises(AssertionError):
            self.search(self.payload)
        self.said = said

    def steer(self, event):
        """What follows one event, compares stores and orders relays about, while the daemon runs."""
        reads = [("trace", event), ("explain", event), ("config", "check", "--connect"),
                 ("reconcile", "--outbox", "shop", "--inbox", "shop", "--consumer", "refuse", "--report", "page.html")]
        done = self.run_all(reads)
        self.assertEqual([one.code for one in done[:4]], [0] * 4, done[:4])
        orders = [("pause",), ("resume",), ("drain",), ("resume",), ("seek", "--to", "beginning")]
        for order, *more in orders:
            for form in ((), ("--json",)):
                done = self.run_dovetail("relay", order, "to-hook", *more, "--reason", "x", *form)
                self.assertEqual(done.code, 0, (order, done))
        self.run_all([("prune", "--delivered", "1h", "--inbox", "30d")])
        self.said.append(("the report", (self.folder / "page.html").read_bytes()))

    def test_nothing_that_a_daemon_or_a_command_writes_shows_a_secret_or_a_payload(self):
        self.init()
        took = self.everything()
        self.run_dovetail("init")
        self.sql(FUNCTIONS)
        self.dovetail("run", "refuse", "program", "--until-idle")  # they know what comes from their first start on
        self.publish_some(20)
        daemon = self.start_daemon(env=self.env)
        self.wait_for("an event is delivered and all others have failed", lambda: len(took) >= 20 and all(
            f'"subject":"{one}"' in self.log() for one in ("to-redis", "to-wrong-redis", "to-nowhere")))
        # An event is at fault when it fails while others pass, so others have to come.
        self.wait_for("something is parked of each who refuses", lambda: self.sql(
            "SELECT count(DISTINCT relay) FROM dovetail.parked") == "3" or self.publish_some(2))
        self.said.append(("the daemon", pathlib.Path(f"/proc/{daemon.pid}/cmdline").read_bytes()))
        self.run_all([("status",), ("doctor",), ("parked", "list"), ("slots",), ("events", "--store", "shop"),
                      *(("run", one, "--until-idle", "--idle-after", "100ms") for one in ("to-wrong-redis", "to-wrong-nats"))])
        event = self.sql("SELECT id FROM dovetail.parked LIMIT 1")
        self.ask_console(event)
        self.steer(event)
        self.run_dovetail("parked", "discard", event, "--reason", "x", "--yes")
        self.wait_for("alerts are posted", lambda: len(self.alerts) >= 3)
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)
        for command in (("rename", "to-kafka", "to-another"), ("forget", "to-another", "--store", "shop"), ("retarget", "to-hook")):
            for more in ((), ("--json",)):
                self.run_dovetail("relay", *command, "--reason", "x", *more)
        self.said += [("the log", self.log().encode()), ("a program", (self.folder / "child").read_bytes())]
        self.said += [("an alert", alert) for alert in self.alerts]
        self.stored()
        self.assertGreater(len(self.said), 250)
        self.search(self.payload, *self.secret.values())
        # What its own detail shows of a row that a function wrote, the server keeps to itself.
        home = dict(one.split("=", 1) for one in postgres_test.SERVER.split())["host"]
        self.said = [("the log of the server", pathlib.Path(home, "log").read_bytes())]
        self.search(*self.secret.values())

    def test_what_clients_of_the_gateway_and_of_the_endpoint_send_is_not_shown(self):
        service = subprocess.Popen([sys.executable, SERVICE, self.folder.parent / f"{self.folder.name}-record"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, service)
        port, entry = int(service.stdout.readline()), http_test.free_port()
        self.write("dovetail.toml", GATEWAY % (port, entry))
        self.init()
        gateway, daemon = self.start("gateway", env=self.env), self.start("run", env=self.env)
        listens = self.wait_for("they listen", lambda: re.search(r'"port":"?(\d+)', self.log()) and
                                '"event":"started"' in self.log() and self.log())
        front = int(re.search(r'"port":"?(\d+)', listens).group(1))
        secret = {"Authorization": "Bearer " + self.secret["BEARER"], "Cookie": "session=" + self.secret["BASIC"]}
        for path in ("/orders", "/status/500", "/drop", "/drop"):
            self.post(front, path + "?k=1", {**secret, "Idempotency-Key": path.replace("/", "")})
        for token, status in ((self.secret["ENTRY"], 202), (self.secret["WRONG"], 401)):
            answer = self.post(entry, "/in", {"Authorization": "Bearer " + token, "Idempotency-Key": "k"})
            self.assertEqual(answer[0], status, answer)
        for command in (("requests", "list", "--store", "answers"), ("status",), ("doctor",), ("parked", "list"),
                        ("events", "--store", "inventory", "--box", "mailbox")):
            self.run_dovetail(*command)
            self.run_dovetail(*command, "--json")
        for process in (gateway, daemon):
            process.terminate()
            self.assertEqual(process.wait(harness.PATIENCE_S), 0)
        self.said.append(("the log", self.log().encode()))
        self.said += [(path.name, path.read_bytes()) for path in self.folder.glob("answers.db*")]
        self.search(self.payload, *self.secret.values())
        self.said = [(path.name, path.read_bytes()) for path in self.folder.glob("inventory.db*")]
        self.search(*self.secret.values())
        with self.assertRaises(AssertionError):
            self.search(self.payload)  # there it belongs, and is found

    def post(self, port, path, headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.PATIENCE_S)
        connection.request("POST", path, json.dumps({"p": self.payload}), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.said.append((path, body))
        return answer.status, body

    def test_what_is_wrong_with_a_config_or_a_payload_is_said_without_it(self):
        secret = self.secret["PG"]
        for lines in (f'url = "postgres://u:{secret}@db/shop"', f'url = "redis://:{secret}@db/0"',
                      f'url = "amqps://u:{secret}@db/"', f'url = "nats://{secret}@db"', f'url = "kafka://u:{secret}@db:1"',
                      f'url = "https://u:{secret}@db/"', f'url = "postgres:host=db password={secret}"',
                      f'url = "redis://db/0"\npassword = "{secret}"', f'url = "redis://db/0"\npassword = "{secret}',
                      f'url = "redis://db/0"\npassword = {secret}', f'url = "https://db/?token={secret}&{{nope}}"',
                      f'url = "https://db/"\nsettings = {{ secret = "{secret}" }}',
                      'url = "${MY_PG}"', 'url = "sqlite:b.db"\nkind = "${MY_PG}"', 'url = "redis://db/${MY_PG}"',
                      'url = "redis://db/0"\nheaders = { x = "{${MY_PG}}" }', 'url = "kafka://${MY_PG}:${MY_PG}"',
                      'url = "https://db/"\nsettings = { secret_env = "MY_BASIC" }'):  # no secret by its form
            self.write("dovetail.toml", f"[store.orders]\nurl = \"sqlite:o.db\"\n[store.bus]\n{lines}\n"
                       '[[relay]]\nname = "r"\nfrom = "orders"\nto = "bus"\n')
            for command in (("status",), ("doctor",), ("config", "check"), ("run", "--until-idle")):
                for more in ((), ("--json",)):
                    done = self.run_dovetail(*command, *more)
                    self.assertIn(done.code, (1, 3, 4), (lines, done))
        self.write("dovetail.toml", harness.CONFIG + '[http]\nlisten = "127.0.0.1:0"\ntokens_file = "tokens"\n')
        self.init()
        for line in (f"admin ada {secret} and more", f"root ada {secret}", f"{secret} ada", f'admin ada "{secret}"',
                     f"admin ada {secret}\nviewer vera {secret}"):
            self.write("tokens", line).chmod(0o600)
            self.assertEqual(self.run_dovetail("run").code, 5)
        for payload in (f'{{"p": "{self.payload}"', f'{{"{self.payload}": nope}}', self.payload):
            self.publish(payload=payload, code=5)
            self.publish("--json", payload=payload, code=5)
        self.search(self.payload, *self.secret.values())


if __name__ == "__main__":
    postgres_test.require_server()
    unittest.main(verbosity=1)
