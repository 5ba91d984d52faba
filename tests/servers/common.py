"""What all servers share: an unprivileged user, free ports, folders, processes."""

import dataclasses
import glob
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import typing

WAIT_MAX_S = 200
LAZY = "libeatmydata.so"


@dataclasses.dataclass
class Server:
    """How to run one kind of server. `home` is its own folder, with all files that it writes."""

    package: str  # of Debian, that brings `programs`
    programs: tuple
    start: typing.Callable  # (state, name) -> (home, process, conninfo)
    ready: typing.Callable  # (conninfo) -> whether it answers
    again: typing.Callable = None  # (home) -> process; starts it again after it ended
    before: typing.Callable = None  # () -> None, or why it cannot be started; may fetch files
    after: typing.Callable = None  # (home): ends what the server has left running
    before_crash: typing.Callable = None  # (home): prepares a crash that the server promises to survive
    stop_signals: tuple = (signal.SIGTERM, signal.SIGKILL)  # each is given half of WAIT_MAX_S
    crash_signal: int = signal.SIGKILL


def unprivileged():
    """Arguments for subprocess that drop root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    raise SystemExit("servers.py: neither the user postgres nor nobody exists; create one of them")


def program(name):
    for found in sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True):
        return found
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def free_port():
    """Outside of the range from which connections get theirs: a server may take seconds until it listens, and what is
    free now must still be free then."""
    while True:
        port = random.SystemRandom().randrange(11000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def give_away(path):
    """Lets the unprivileged user own it."""
    arguments = unprivileged()
    if arguments:
        os.chown(path, arguments["user"], arguments["group"])


def make_home(name):
    home = pathlib.Path(tempfile.mkdtemp(prefix=f"dovetail_{name}_"))
    give_away(home)
    return home


def call(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", **unprivileged(), **more)
    if done.returncode != 0:
        raise SystemExit(f"servers.py: {command[0]} failed:\n{done.stdout.decode(errors='replace')}")


def lazy(environment):
    """With DOVETAIL_SERVERS_DISK=lazy a server does not wait for the disk. What tests do to it is no loss of power: what
    it has written is there whether the disk has it or not. On a slow disk PostgreSQL makes no slot for many seconds
    while somebody drops a database, and much else takes its time."""
    if os.environ.get("DOVETAIL_SERVERS_DISK") != "lazy" or not glob.glob(f"/usr/lib/*/{LAZY}"):
        return environment
    return {**environment, "LD_PRELOAD": ":".join(filter(None, (environment.get("LD_PRELOAD"), LAZY)))}


def spawn(command, home, env=None, **more):
    with open(home / "log", "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                start_new_session=True, env=lazy(env or os.environ), **unprivileged(), **more)


def fields_of(conninfo):
    """A conninfo is one line of KEY=VALUE, for every kind of server."""
    return dict(field.split("=", 1) for field in conninfo.split())


def conninfo_of(state, name):
    return (state / f"{name}.conninfo").read_text(encoding="utf-8").strip()


def wait_until_ready(server, conninfo, process, home):
    end = time.monotonic() + WAIT_MAX_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        if server.ready(conninfo):
            return
        time.sleep(0.05)
    raise SystemExit(f"servers.py: the server does not answer:\n{(home / 'log').read_text(errors='replace')[-2000:]}")
