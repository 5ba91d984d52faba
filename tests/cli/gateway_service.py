"""A service for the tests of the gateway. Each request that comes is a line in a file, before it does anything.

    gateway_service.py RECORD [PORT]     prints its port

/orders answers 201 with a number; /wait does so when the file RECORD.go is there; /die ends the process in the middle;
/status/N answers N; /big answers a lot; /echo answers what it got; /cut sends half an answer; /drop none; /late/MS answers late;
/file has names that are not ASCII.
"""

import http.server
import itertools
import json
import os
import pathlib
import socketserver
import ssl
import sys
import threading
import time

RECORD = pathlib.Path(sys.argv[1])
NUMBER = itertools.count(1)
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def run(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        with LOCK:
            number = next(NUMBER)
            with open(RECORD, "a", encoding="utf-8") as file:
                file.write(json.dumps({"method": self.command, "path": self.path, "body": body.decode("latin-1"),
                                       "key": self.headers.get("Idempotency-Key"),
                                       "headers": self.headers.items()}) + "\n")
        path = self.path.split("?")[0]
        if path == "/die":
            os._exit(9)
        if path == "/drop":
            self.close_connection = True
            return
        if path == "/wait":
            while not pathlib.Path(f"{RECORD}.go").exists():
                time.sleep(0.01)
        if path.startswith("/late/"):
            time.sleep(int(path.removeprefix("/late/")) / 1000)
        if path == "/cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            self.wfile.flush()
            self.close_connection = True
            return
        status, answer = 201, f"order {number}\n".encode()
        if path.startswith("/status/"):
            status = int(path.removeprefix("/status/"))
        if path == "/big":
            answer = b"x" * (3 << 20)
        if path == "/echo":
            answer = RECORD.read_text(encoding="utf-8").splitlines()[-1].encode()
        if path == "/bytes":
            answer = bytes(range(256))
        self.send_response(status)
        self.send_header("X-Number", str(number))
        self.send_header("Set-Cookie", "a=1")
        self.send_header("Set-Cookie", "b=2")
        if path == "/file":  # a name in Latin-1 and one in UTF-8; headers go out in Latin-1
            self.send_header("Content-Disposition", "attachment; filename=caf\xe9\xff.pdf; again=caf\xc3\xa9.pdf")
        self.send_header("Keep-Alive", "timeout=5")
        self.send_header("X-Hop", "not for others")
        self.send_header("Connection", "keep-alive, X-Hop")
        if status != 204:
            self.send_header("Content-Type", "text/x-order")
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = run


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True

    def handle_error(self, *_):
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    if len(sys.argv) > 3:  # its certificate, without the ending
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3] + ".pem", sys.argv[3] + ".key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    server.serve_forever()
