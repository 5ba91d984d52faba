"""A daemon with tokens, events that get through, and events that are parked."""

import json
import uuid

import console
import harness
import openapi

TOKENS = {"viewer": "v" * 32, "operator": "o" * 32, "admin": "a" * 32}
NAMES = {"viewer": "vera", "operator": "olga", "admin": "ada"}
CANARY = "canary-payload-7f3a"
CONFIG = harness.CONFIG + '\n[http]\nlisten = "127.0.0.1:0"\ntokens_file = "tokens"\n'


class SceneCase(console.ConsoleCase):
    """The relay parks what the mailbox does not take: everything of the aggregate type "poison"."""

    config = CONFIG

    def write_tokens(self):
        self.write("tokens", "".join(f"{role} {NAMES[role]} {token}\n" for role, token in TOKENS.items())).chmod(0o600)

    def begin(self):
        self.write_tokens()
        self.init()
        self.good = [self.publish_id(key=str(key), payload=json.dumps({"secret": CANARY})) for key in (17, 18, 19)]
        self.poison = [self.insert(key) for key in ("a", "a", "b")]  # the second waits behind the first
        self.daemon = self.start_daemon()
        self.wait_for("three are delivered and three are out of the way",
                      lambda: (self.reader() or {}).get("delivered_total") == 3
                      and self.reader()["parked"] == 2 and self.reader()["waiting"] == 1)

    def insert(self, key, payload=None):
        """As a service inserts it; `publish` would refuse the topic."""
        one = uuid.UUID(int=(uuid.uuid4().int & ~(0xF << 76)) | (7 << 76))
        self.change("orders.db", "INSERT INTO dovetail_outbox (id, aggregate_type, aggregate_id, type, payload) VALUES "
                    "(?, 'poison', ?, 'Poisoned', ?)", one.bytes, key, payload or json.dumps({"secret": CANARY}))
        return str(one)

    def api(self, path, body=None, role="operator", method=None, headers=None):
        sent = {"Authorization": f"Bearer {TOKENS[role]}"} if role else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        return self.call("/api/v1/" + path, method or ("GET" if body is None else "POST"), headers=sent | (headers or {}),
                         body=None if body is None else json.dumps(body))

    def get(self, path, **more):
        answer = self.api(path, **more)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def post(self, path, body, **more):
        answer = self.api(path, body, **more)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def described(self, method, path, answer):
        """The answer is as the API is described; returns its document."""
        self.assertEqual(answer.status, 200, answer)
        description = openapi.Description(self.get("openapi.json", role=None))
        kind, schema = description.answer(method, path)
        self.assertTrue(answer.headers["Content-Type"].startswith(kind), answer)
        if kind != "application/json":
            return answer.body
        self.assertEqual(description.wrong(schema, answer.json()), [], answer)
        return answer.json()

    def mend(self):
        """The mailbox takes everything from now on."""
        self.end(self.daemon)
        self.write("dovetail.toml", self.config.replace('topics = ["orders.events"]', 'topics = []'))
        self.daemon = self.start_daemon()
