"""A receiver of HTTP that tests decide for."""

import http.server
import threading


def serve(case, answer, bodies=None):
    """An endpoint of HTTP: `answer(id)` is the status. Returns its port and the ids that it took. `bodies` gets what came."""
    took = []

    class Endpoint(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            if bodies is not None:
                bodies.append(body)
            event = self.headers["idempotency-key"]
            status = answer(event)
            if status < 300:
                took.append(event)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        do_OPTIONS = do_POST

        def log_message(self, *arguments):
            pass

        def handle(self):
            try:
                super().handle()
            except ConnectionError:
                pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    case.addCleanup(server.server_close)
    case.addCleanup(server.shutdown)
    return server.server_port, took
