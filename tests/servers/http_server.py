"""A small HTTP server for tests, of the standard library alone: answers as the query of the url says, and writes down
every request that came whole.

    http_server.py HOME PORT[,CERT,KEY[,CLIENT_CA]]...

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
    date=TEXT         the header Date

HOME/down, when it exists, holds a status that everything is answered with (such as 503).
"""

import asyncio
import base64
import json
import pathlib
import ssl
import subprocess
import sys
import urllib.parse

import certificates
import common

REASONS = {200: "OK", 503: "Service Unavailable"}


class Connection(asyncio.Protocol):
    """Takes one request after another. Strict: anything else closes the connection."""

    def __init__(self, server):
        self.server = server
        self.buffer = b""
        self.peer = ""
        self.transport = None
        self.busy = False

    def connection_made(self, transport):
        self.transport = transport
        self.peer = "%s:%d" % transport.get_extra_info("peername")[:2]

    def data_received(self, data):
        self.buffer += data
        self.serve()

    def serve(self):
        while not self.busy and not self.transport.is_closing():
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            lines = head.decode("utf-8", "backslashreplace").split("\r\n")
            method, path, version = lines[0].split(" ")
            headers = [(name, value.strip(" \t")) for name, _, value in (line.partition(":") for line in lines[1:])]
            lower = {name.lower(): value for name, value in headers}
            length = int(lower.get("content-length", 0))
            if version != "HTTP/1.1" or "transfer-encoding" in lower:
                self.transport.close()
                return
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.answer(method, path, headers, rest[:length])

    def answer(self, method, path, headers, body):
        wishes = self.server.wishes(path)
        status = int(wishes.get("status") or 200)
        self.server.write_down({"method": method, "path": path, "headers": headers, "status": status, "peer": self.peer,
                                "body": base64.b64encode(body).decode()})
        if wishes:
            self.busy = True
            self.task = asyncio.ensure_future(self.answer_as_asked(wishes, status))
        else:
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def answer_as_asked(self, wishes, status):
        await asyncio.sleep(float(wishes.get("delay", 0)))
        if "garbage" in wishes:
            self.transport.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        if "garbage" in wishes or wishes.get("early") == "1":
            self.transport.close()
            return
        size = int(wishes.get("bytes", 0))
        head = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}", f"Content-Length: {size}"]
        for wish, header in (("retry_after", "Retry-After"), ("location", "Location"), ("date", "Date")):
            if wishes.get(wish):
                head.append(f"{header}: {wishes[wish]}")
        if status == 204:
            del head[1]
        self.transport.write(("\r\n".join(head) + "\r\n\r\n").encode())
        if wishes.get("early") == "2":
            self.transport.close()
            return
        drip = float(wishes.get("drip", 0))
        if not drip:
            self.transport.write(b"x" * size)
            size = 0
        while size > 0 and not self.transport.is_closing():
            self.transport.write(b"x")
            size -= 1
            await asyncio.sleep(drip)
        self.busy = False
        self.serve()


class Server:
    def __init__(self, home):
        self.home = home
        self.record = open(home / "record", "a", encoding="utf-8", buffering=1)
        self.seen = {}

    def wishes(self, path):
        if (self.home / "down").exists():
            return {"status": (self.home / "down").read_text(encoding="utf-8").strip()}
        wishes = dict(urllib.parse.parse_qsl(path.partition("?")[2]))
        if "times" in wishes:
            self.seen[path] = self.seen.get(path, 0) + 1
            if self.seen[path] > int(wishes["times"]):
                return {}
        return wishes

    def write_down(self, request):
        self.record.write(json.dumps(request) + "\n")


def tls_of(cert=None, key=None, client_ca=None):
    if cert is None:
        return None
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    if client_ca:
        tls.load_verify_locations(client_ca)
        tls.verify_mode = ssl.CERT_REQUIRED
    return tls


async def listen(server, port, *tls):
    for attempt in range(200):
        try:
            return await asyncio.get_running_loop().create_server(
                lambda: Connection(server), "127.0.0.1", int(port), ssl=tls_of(*tls), backlog=256)
        except OSError:
            # A process that was killed may hold the port for another moment.
            if attempt == 199:
                raise
            await asyncio.sleep(0.05)


async def serve(home, *ports):
    home = pathlib.Path(home)
    server = Server(home)
    listening = [await listen(server, *port.split(",")) for port in ports]
    (home / "ready").touch()
    await asyncio.gather(*(one.serve_forever() for one in listening))


def answers(conninfo):
    # Not by a connection: a killed process may still accept one while it ends.
    return (pathlib.Path(common.fields_of(conninfo)["home"]) / "ready").exists()


def again(home):
    arguments = (home / "arguments").read_text(encoding="utf-8").split()
    (home / "ready").unlink(missing_ok=True)
    # Not as another user, who may not be able to read the script.
    with open(home / "log", "ab") as log:
        return subprocess.Popen([sys.executable, str(pathlib.Path(__file__).resolve()), str(home), *arguments],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def start_http(state, name):
    del state
    home, port = common.make_home(name), common.free_port()
    (home / "arguments").write_text(str(port), encoding="utf-8")
    return home, again(home), f"host=127.0.0.1 port={port} home={home}"


def start_tls(state, name):
    """With ports of their own: for a certificate that is right, one that wants one of the client, too, one of another
    name, and one that is over."""
    del state
    home = common.make_home(name)
    certs = home / "certs"
    certificates.make(certs)
    ports = {kind: common.free_port() for kind in ("", "client_", "stranger_", "expired_")}
    pairs = {kind: f"{certs}/{pair}.pem,{certs}/{pair}.key" for kind, pair in
             (("", "server"), ("client_", "server"), ("stranger_", "stranger"), ("expired_", "expired"))}
    pairs["client_"] += f",{certs}/ca.pem"
    (home / "arguments").write_text(" ".join(f"{port},{pairs[kind]}" for kind, port in ports.items()), encoding="utf-8")
    fields = " ".join(f"{kind}port={port}" for kind, port in ports.items())
    return home, again(home), f"host=127.0.0.1 {fields} home={home} certs={certs}"


SERVERS = {
    "http": common.Server("python3", (), start_http, answers, again),
    "http_tls": common.Server("openssl", ("openssl",), start_tls, answers, again),
}

if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
