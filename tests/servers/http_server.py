"""A small HTTP server for tests, of the standard library alone: answers as the query of the url says, and writes down
every request that came whole.

    http_server.py HOME PORT [CERT KEY [CLIENT_CA]]

HOME/record gets one JSON object for each request: method, path, headers (a list of pairs, as they came), body (base64),
status and peer. What a request's query may ask for:

    status=503        instead of 200
    retry_after=2     the header Retry-After (any text)
    location=/x       the header Location
    times=3           only for the first three requests of this url; then 200
    delay=0.5         seconds before the answer
    bytes=100000      of the answer's body
    drip=0.05         seconds between the bytes of the answer's body
    early=1           the connection ends instead of an answer; 2: behind the answer's headers
    garbage=1         an answer that is no HTTP
HOME/down, when it exists, holds a status that everything is answered with (such as 503).
"""

import base64
import http.server
import json
import pathlib
import ssl
import sys
import threading
import time
import urllib.parse

import common

LOCK = threading.Lock()
SEEN = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def log_message(self, *_):
        pass

    def wishes(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        wishes = {name: values[0] for name, values in query.items()}
        with LOCK:
            SEEN[self.path] = SEEN.get(self.path, 0) + 1
            if SEEN[self.path] > int(wishes.get("times", 1 << 30)):
                wishes = {}
        down = self.server.home / "down"
        if down.exists():
            wishes = {"status": down.read_text(encoding="utf-8").strip()}
        return wishes

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return body

    def write_down(self, body, status):
        # The library takes the bytes of headers for Latin-1.
        headers = [(name, value.encode("latin-1").decode("utf-8", "backslashreplace"))
                   for name, value in self.headers.items()]
        line = json.dumps({"method": self.command, "path": self.path, "headers": headers, "status": status,
                           "peer": "%s:%d" % self.client_address[:2], "body": base64.b64encode(body).decode()}) + "\n"
        with LOCK, open(self.server.home / "record", "a", encoding="utf-8") as record:
            record.write(line)

    def answer(self):
        wishes = self.wishes()
        body = self.read_body()
        status = int(wishes.get("status", 200))
        self.write_down(body, status)
        time.sleep(float(wishes.get("delay", 0)))
        if wishes.get("garbage"):
            self.wfile.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        if wishes.get("garbage") or wishes.get("early") == "1":
            self.close_connection = True
            return
        self.send_response(status)
        for wish, header in (("retry_after", "Retry-After"), ("location", "Location")):
            if wish in wishes:
                self.send_header(header, wishes[wish])
        size = int(wishes.get("bytes", 0))
        self.send_header("Content-Length", str(size))
        self.end_headers()
        if wishes.get("early") == "2":
            self.close_connection = True
            return
        self.send_body(size, float(wishes.get("drip", 0)))

    def send_body(self, size, drip):
        try:
            if not drip:
                self.wfile.write(b"x" * size)
                return
            for _ in range(size):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(drip)
        except OSError:
            self.close_connection = True  # nobody listens any more

    do_GET = do_POST = do_OPTIONS = do_HEAD = do_PUT = answer


class HttpServer(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        print("http_server:", sys.exc_info()[1], file=sys.stderr)

    def get_request(self):
        connection, address = super().get_request()
        if self.tls:
            # The handshake is made by the connection's own thread, with its first read.
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address


def serve(home, port, cert=None, key=None, client_ca=None):
    server = bound(int(port))
    server.home = pathlib.Path(home)
    server.tls = None
    if cert:
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(cert, key)
        if client_ca:
            server.tls.load_verify_locations(client_ca)
            server.tls.verify_mode = ssl.CERT_REQUIRED
    (server.home / "ready").touch()
    server.serve_forever()


def bound(port):
    until = time.monotonic() + 10
    while True:
        try:
            return HttpServer(("127.0.0.1", port), Handler)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def answers(conninfo):
    # Not by a connection: a process that was killed may still accept one while it goes.
    return (pathlib.Path(common.fields_of(conninfo)["home"]) / "ready").exists()


def again(home):
    arguments = (home / "arguments").read_text(encoding="utf-8").split()
    (home / "ready").unlink(missing_ok=True)
    # Not as another user, who may not be able to read the script.
    with open(home / "log", "ab") as log:
        return common.subprocess.Popen([sys.executable, str(pathlib.Path(__file__).resolve()), str(home), *arguments],
                                       stdin=common.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def start_http(state, name):
    del state
    home, port = common.make_home(name), common.free_port()
    (home / "arguments").write_text(str(port), encoding="utf-8")
    return home, again(home), f"host=127.0.0.1 port={port} home={home}"


SERVERS = {"http": common.Server("python3", (), start_http, answers, again)}

if __name__ == "__main__":
    serve(*sys.argv[1:])
