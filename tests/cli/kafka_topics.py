"""Makes topics on a Kafka server: one request of its protocol, so that no client library is needed."""

import socket
import struct

CREATE_TOPICS, VERSION = 19, 0
ALREADY_EXISTS = 36


def text(value):
    return struct.pack(">h", len(value.encode())) + value.encode()


def exactly(connection, count):
    got = b""
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            raise ConnectionError("the server closed the connection")
        got += more
    return got


def create(port, name, partitions=3):
    """A topic that is there already is left as it is."""
    topic = text(name) + struct.pack(">ihii", partitions, 1, 0, 0)  # one replica, no assignments, no settings
    request = struct.pack(">hhi", CREATE_TOPICS, VERSION, 1) + text("tests") + struct.pack(">i", 1) + topic + struct.pack(">i", 30000)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])
    [error] = struct.unpack(">h", answer[-2:])  # the last field of the only topic
    if error not in (0, ALREADY_EXISTS):
        raise RuntimeError(f"Kafka did not make the topic {name}: error {error}")
