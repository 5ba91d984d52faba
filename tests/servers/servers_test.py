"""A killed server has released its port before it is started again."""

import pathlib
import signal
import socket
import subprocess
import sys
import unittest

import common
import servers

# Many threads end one after another, and the last one closes the port.
LISTENER = """
import socket, sys, threading, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    for _ in range(300):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    print("listens", flush=True)
    time.sleep(600)
"""


class End(unittest.TestCase):
    def test_a_killed_server_holds_no_port(self):
        home = pathlib.Path("a_home_for_this_test")
        for _ in range(20):
            port = common.free_port()
            with subprocess.Popen([sys.executable, "-c", LISTENER, str(port), str(home)], stdout=subprocess.PIPE) as one:
                self.assertEqual(one.stdout.readline(), b"listens\n")
                servers.end(one.pid, home, signal.SIGKILL, 60)
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))


if __name__ == "__main__":
    unittest.main()
