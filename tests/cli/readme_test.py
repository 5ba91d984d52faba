"""What README.md, or the document that is named, lets people paste must work as it stands.

Runs every ```sh block between the lines <!-- tested --> and <!-- /tested -->, one after the other, in one temporary
folder, with the built programs on the PATH. A block that fails, fails the test. A document that calls psql finds
the server of the tests as libpq does; the databases and the logins that it makes are called shop and shop_*, and are dropped.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import harness
import postgres_test


def tested_blocks(text):
    for part in re.findall(r"<!-- tested -->(.*?)<!-- /tested -->", text, re.DOTALL):
        yield from re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)


class Server:
    """How the blocks reach the server; nothing, for a document that needs none."""

    def __init__(self, wanted):
        conninfo = pathlib.Path(os.environ.get("DOVETAIL_SERVERS", "servers")) / "postgres.conninfo"
        self.is_missing = wanted and not conninfo.exists()
        self.environment = {}
        if wanted and conninfo.exists():
            fields = dict(word.split("=", 1) for word in conninfo.read_text().split())
            self.environment = {f"PG{key.upper().replace('DBNAME', 'DATABASE')}": fields[key] for key in fields}

    def clean(self):
        if self.environment:
            for name in ("shop", "shop_stock"):
                postgres_test.drop_database(name)
            postgres_test.psql("".join(f"DROP ROLE IF EXISTS shop_{role};" for role in ("app", "worker", "relay", "operator")))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def main():
    sample = "<!-- tested -->\n```sh\none\n```\ntext\n```sql\nno\n```\n```sh\ntwo\n```\n<!-- /tested -->\n```sh\nno\n```\n"
    assert list(tested_blocks(sample)) == ["one\n", "two\n"]
    document = sys.argv[1] if len(sys.argv) > 1 else "README.md"
    blocks = list(tested_blocks((harness.ROOT / document).read_text()))
    server = Server(any("psql" in block for block in blocks))
    if server.is_missing:
        print(f"SKIPPED: {document} needs the server of the tests; run it through ctest", file=sys.stderr)
        return 77
    folder = tempfile.mkdtemp(prefix="dovetail-readme-")
    path = os.pathsep.join([str(pathlib.Path(harness.DOVETAIL).resolve().parent), str(harness.EXAMPLES), os.environ["PATH"]])
    environment = {k: v for k, v in os.environ.items() if k != "DOVETAIL_CONFIG"} | {"PATH": path} | server.environment
    environment |= {name: str(free_port()) for name in ("GATEWAY_PORT", "SERVICE_PORT")}
    # One shell for all blocks, as one person types them; it stops at the first command that fails.
    # psql counts as failed when a statement fails.
    script = "set -eu -o pipefail\npsql() { command psql -X -v ON_ERROR_STOP=1 \"$@\"; }\n" + "\n".join(blocks)
    server.clean()
    with open(os.path.join(folder, "output"), "w+", encoding="utf-8") as output:
        session = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment, stdout=output, stderr=output,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            session.wait(timeout=harness.PATIENCE_S * 4)
        finally:
            # Whatever a block has left running in the background.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)
        output.seek(0)
        said = output.read()
    shutil.rmtree(folder, ignore_errors=True)
    server.clean()
    if session.returncode != 0:
        print(f"{document}: the session failed with {session.returncode}\n{script}\n{said}")
        return 1
    print(f"{document}: {len(blocks)} blocks ran")
    return 0 if blocks else 1


if __name__ == "__main__":
    sys.exit(main())
