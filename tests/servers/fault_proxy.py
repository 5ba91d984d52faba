#!/usr/bin/env python3
"""A proxy before PostgreSQL, on loopback, that loses what a connection asks it to lose.

    fault_proxy.py LISTEN_PORT SERVER_PORT RECORD

A connection says by its application_name what is to go wrong with it:

    commit-lost    COMMIT is not passed on, and the connection is cut: the transaction is rolled back
    reply-lost     COMMIT is passed on, and the connection is cut once the server has answered: it is committed
    reply-silent   COMMIT is passed on, and nothing comes back any more, though the connection stays open

Any other is passed through. Each fault becomes a line of the file RECORD. No TLS: connect with sslmode=disable and
gssencmode=disable.
"""

import socket
import struct
import sys
import threading

FAULTS = ("commit-lost", "reply-lost", "reply-silent")
READY_FOR_QUERY = b"Z\0\0\0\5"


def exactly(stream, count):
    data = stream.read(count)
    if len(data) < count:
        raise ConnectionError("the connection ended")
    return data


def read_startup(stream):
    """The first packet, and the application_name in it."""
    head = exactly(stream, 4)
    packet = exactly(stream, struct.unpack("!i", head)[0] - 4)
    words = packet[4:].split(b"\0")
    settings = dict(zip(words[0::2], words[1::2]))
    return head + packet, settings.get(b"application_name", b"").decode()


def read_message(stream):
    head = exactly(stream, 5)
    return head + exactly(stream, struct.unpack("!i", head[1:])[0] - 4)


def is_commit(message):
    return message[:1] == b"Q" and message[5:].rstrip(b"\0; ").upper() == b"COMMIT"


class Link:
    """One connection of a client, and ours to the server for it."""

    def __init__(self, client, port, record):
        self.client, self.record = client, record
        self.server = socket.create_connection(("127.0.0.1", port))
        for end in (self.client, self.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.silent, self.answered = threading.Event(), threading.Event()

    def run(self):
        try:
            with self.client.makefile("rb") as stream:
                startup, name = read_startup(stream)
                self.server.sendall(startup)
                threading.Thread(target=self.pass_answers, daemon=True).start()
                while self.pass_message(read_message(stream), name):
                    pass
        except OSError:
            pass
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def pass_message(self, message, name):
        """False: the connection ends here."""
        if name not in FAULTS or not is_commit(message):
            self.server.sendall(message)
            return True
        with open(self.record, "a", encoding="utf-8") as file:
            file.write(name + "\n")
        if name == "commit-lost":
            return False
        self.silent.set()
        self.server.sendall(message)
        self.answered.wait()
        return name == "reply-silent"

    def pass_answers(self):
        try:
            while data := self.server.recv(1 << 16):
                if not self.silent.is_set():
                    self.client.sendall(data)
                elif READY_FOR_QUERY in data:
                    self.answered.set()
        except OSError:
            pass
        self.answered.set()
        try:
            self.client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    listen_port, server_port, record = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with socket.create_server(("127.0.0.1", listen_port), backlog=100) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=Link(client, server_port, record).run, daemon=True).start()


if __name__ == "__main__":
    main()
