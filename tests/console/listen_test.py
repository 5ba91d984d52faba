"""Where the daemon listens, and for whom."""

import signal
import socket
import subprocess

import console
import harness

VIEWER, ADMIN = "v" * 32, "a" * 32


class Listen(console.ConsoleCase):
    def test_without_the_table_nothing_listens(self):
        self.write("dovetail.toml", harness.CONFIG)
        self.init()
        self.start("run")
        self.wait_for("the relay runs", lambda: "started" in self.log())
        self.assertEqual(self.ports(), [])

    def test_it_answers_while_a_store_that_hangs_holds_the_relays_up(self):
        silent = socket.socket()
        self.addCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        self.write("dovetail.toml", f"""\
[store.orders]
url = "sqlite:orders.db"
[store.shop]
url = "postgres:host=127.0.0.1 port={silent.getsockname()[1]} dbname=shop"
[[relay]]
name = "silent"
from = "shop"
to = "orders"
[log]
format = "json"
{console.HTTP}""")
        self.init_store("orders")
        self.start_daemon()
        self.assertEqual(self.call("/livez").json(), {"alive": True})

    def init_store(self, name):
        self.dovetail("init", code=4)  # the other store is away; this one comes first
        self.assertTrue((self.folder / f"{name}.db").exists())

    def test_a_port_that_is_taken_does_not_stop_the_relays(self):
        other = socket.socket()
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        self.write("dovetail.toml", harness.CONFIG + f'\n[http]\nlisten = "127.0.0.1:{port}"\n')
        self.init()
        self.publish()
        self.start("run")
        self.wait_for("the event is delivered", lambda: (self.reader() or {}).get("delivered_total") == 1)
        self.assertIn("cannot listen at 127.0.0.1", self.log())
        other.close()
        self.wait_for("it listens when the port is free", self.ports)
        self.assertEqual(self.call("/livez", port=port).status, 200)

    def test_a_second_daemon_of_the_same_file_stands_by_without_the_port(self):
        self.init()
        self.start_daemon()
        self.write("dovetail.toml", self.config.replace('"127.0.0.1:0"', f'"127.0.0.1:{self.port}"'))
        second = self.start("run")
        self.wait_for("the second says so", lambda: "cannot listen at" in self.log())
        self.wait_for("the second stands by", lambda: "standby" in self.log())
        self.assertIsNone(second.poll())

    def test_other_machines_need_tls_and_tokens(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            self.write("dovetail.toml", harness.CONFIG + f'\n[http]\nlisten = "{address}"\n')
            self.init()
            result = self.dovetail("run", code=5)
            self.assertIn("set cert_file, key_file, tokens_file, or listen at 127.0.0.1", result.err)

    def test_tokens_that_others_can_read_are_refused(self):
        self.tokens(0o644)
        self.write("dovetail.toml", self.config + 'tokens_file = "tokens"\n')
        self.init()
        result = self.dovetail("run", code=5)
        self.assertIn("chmod 600", result.err)
        self.assertNotIn(VIEWER, result.err)

    def tokens(self, mode=0o600, text=f"viewer vera {VIEWER}\nadmin ada {ADMIN}\n"):
        self.write("tokens", text).chmod(mode)

    def certificate(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"],
                       cwd=self.folder, check=True, capture_output=True)

    def test_with_tls_and_tokens_it_listens_for_other_machines(self):
        self.tokens()
        self.certificate()
        self.write("dovetail.toml", harness.CONFIG + """
[http]
listen = "0.0.0.0:0"
cert_file = "cert.pem"
key_file = "key.pem"
tokens_file = "tokens"
hosts = ["dash.example"]
""")
        self.init()
        self.start_daemon()
        ask = lambda **headers: self.call("/api/v1/session", tls=True, headers=headers)
        self.assertEqual(ask().json(), {"name": None, "role": "nobody"})
        self.assertEqual(ask(Authorization=f"Bearer {ADMIN}").json(), {"name": "ada", "role": "admin"})
        self.assertEqual(ask(Host="dash.example").status, 200)
        self.assertEqual(ask(Host="evil.example").status, 421)
        signed_in = self.call("/api/v1/session", "POST", tls=True, body='{"token": "%s"}' % VIEWER,
                              headers={"Content-Type": "application/json"})
        self.assertTrue(signed_in.headers["Set-Cookie"].startswith("__Host-dovetail_"), signed_in)
        self.assertIn("; Secure", signed_in.headers["Set-Cookie"])
        self.tokens(text=f"viewer vera {VIEWER}\n")
        self.wait_for("a token that was removed is not known",
                      lambda: ask(Authorization=f"Bearer {ADMIN}").json()["role"] == "nobody")
        self.assertEqual(ask(Authorization=f"Bearer {VIEWER}").json()["role"], "viewer")
        self.wait_for("the refusal of the foreign host is in the log", lambda: '"refused"' in self.log())
        for secret in (VIEWER, ADMIN):
            self.assertNotIn(secret, self.log())

    def test_it_stops_with_the_daemon(self):
        self.init()
        process = self.start_daemon()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, self.log())
        with self.assertRaises(OSError):
            self.call("/livez")


if __name__ == "__main__":
    harness.main()
