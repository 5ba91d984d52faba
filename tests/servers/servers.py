#!/usr/bin/env python3
"""Real servers for tests: starts them on free loopback ports in folders of their own, and stops them again.

    servers.py --state FOLDER start NAME     NAME: postgres, other (a second, empty PostgreSQL cluster),
                                             standby (a hot standby of postgres), pgbouncer (before postgres),
                                             postgres_tls (takes no connection without TLS),
                                             postgres_full (its disk is full when it is told so: full_disk.c),
                                             postgres_new and standby_new (the same of the newest version),
                                             proxy (before postgres, loses what it is told to: fault_proxy.py),
                                             and what the modules of the brokers name
    servers.py --state FOLDER crash NAME     ends at once, as by a loss of power, and starts again as it was
    servers.py --state FOLDER kill NAME      ends at once
    servers.py --state FOLDER again NAME     starts as it was, after kill
    servers.py --state FOLDER stop [NAME]    without NAME: all, also those of commands that have ended
    servers.py --state FOLDER with NAME[,NAME] COMMAND [ARGUMENT...]
                                             starts servers of which only this command knows, and stops them after it;
                                             it finds them, and those in FOLDER, by DOVETAIL_SERVERS

FOLDER holds for each server NAME.conninfo (how to reach it), NAME.pid and NAME.home (its data and log). A server that
is not installed leaves NAME.missing with the reason, and `start` succeeds: the tests then say aloud that they are
skipped. Servers run as an unprivileged user when we are root, and write durably, unless DOVETAIL_SERVERS_DISK=lazy.
DOVETAIL_SERVERS_POSTGRES chooses the version of postgres, other and standby: 13 to 18, and Debian's without it
(postgres_versions.py).
"""

import argparse
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

from common import WAIT_MAX_S, conninfo_of, program, wait_until_ready

# Each has SERVERS, a table of names. A proxy comes after its server there.
MODULES = ("postgres", "kafka_server", "rabbitmq_server", "nats_server", "redis_server", "http_server")

# The index of the start time among the fields of /proc/PID/stat after the name.
BIRTH = 19


def all_servers():
    found = {}
    for module in MODULES:
        if pathlib.Path(__file__).with_name(f"{module}.py").exists():
            found.update(importlib.import_module(module).SERVERS)
    return found


SERVERS = all_servers()


def why_missing(server):
    missing = [wanted for wanted in server.programs if program(wanted) is None]
    if missing:
        return f"{', '.join(missing)} not found; install the package {server.package}"
    return server.before() if server.before else None


def start(state, name):
    stop(state, name)
    server = SERVERS[name]
    reason = why_missing(server)
    if reason:
        (state / f"{name}.missing").write_text(reason + "\n", encoding="utf-8")
        print(f"servers.py: {name}: {reason}; its tests will be skipped", file=sys.stderr)
        return
    for attempts_left in (2, 1, 0):
        home, process, conninfo = server.start(state, name)
        (state / f"{name}.pid").write_text(str(process.pid), encoding="utf-8")
        (state / f"{name}.home").write_text(str(home), encoding="utf-8")
        try:
            wait_until_ready(server, conninfo, process, home)
            break
        except SystemExit as failure:  # such as another's server that took the port
            if attempts_left == 0:
                raise
            print(failure, file=sys.stderr)
            stop(state, name)
    (state / f"{name}.conninfo").write_text(conninfo + "\n", encoding="utf-8")
    return conninfo


def is_ours(pid, home):
    """Whether the process is still the server that was started in that folder: process ids are reused."""
    try:
        return str(home).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def fields_of_process(pid):
    """The fields of /proc/PID/stat from the third on, or None."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return None


def is_gone(pid, birth):
    """Whether the process that was born then has let go of its ports. A thread that still ends holds them, when the
    first one is a zombie already and has no command line any more."""
    fields = fields_of_process(pid)
    if fields is None or fields[BIRTH] != birth:
        return True
    try:
        return fields[0] == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True


def end(pid, home, sign, wait_max_s):
    if not is_ours(pid, home):
        return
    fields = fields_of_process(pid)
    if fields is None:
        return
    birth = fields[BIRTH]
    until = time.monotonic() + wait_max_s
    os.kill(pid, sign)
    while not is_gone(pid, birth) and time.monotonic() < until:
        time.sleep(0.02)


def of(state, name):
    pid, home = (pathlib.Path(state / f"{name}.{what}").read_text(encoding="utf-8") for what in ("pid", "home"))
    return int(pid), pathlib.Path(home)


def stop(state, name, at_once=False):
    if (state / f"{name}.pid").exists() and (state / f"{name}.home").exists():
        pid, home = of(state, name)
        server = SERVERS[name]
        for sign in (server.crash_signal,) if at_once else server.stop_signals:
            end(pid, home, sign, WAIT_MAX_S / 2)
        if server.after:
            server.after(home)
        shutil.rmtree(home, ignore_errors=True)
    for file in state.glob(f"{name}.*"):
        file.unlink()


def kill(state, name):
    pid, home = of(state, name)
    if SERVERS[name].before_crash:
        SERVERS[name].before_crash(home)
    end(pid, home, SERVERS[name].crash_signal, WAIT_MAX_S)


def again(state, name):
    server = SERVERS[name]
    if server.again is None:
        raise SystemExit(f"servers.py: {name} cannot be started again")
    _, home = of(state, name)
    process = server.again(home)
    (state / f"{name}.pid").write_text(str(process.pid), encoding="utf-8")
    wait_until_ready(server, conninfo_of(state, name), process, home)


def crash(state, name):
    kill(state, name)
    again(state, name)


def stop_all(state):
    for name in reversed(SERVERS):
        stop(state, name)
    for folder in (*state.glob("of_*"), *state.glob("with_*")):
        if not pathlib.Path("/proc", folder.name.split("_")[1]).exists():
            stop_all(folder)
            shutil.rmtree(folder, ignore_errors=True)


def run_with(state, names, command):
    own = state / f"with_{os.getpid()}"
    own.mkdir()
    for file in (*state.glob("*.conninfo"), *state.glob("*.missing")):
        shutil.copy(file, own)
    try:
        for name in names:
            start(own, name)
        code = subprocess.run(command, env={**os.environ, "DOVETAIL_SERVERS": str(own)}, check=False).returncode
        return code if code >= 0 else 128 - code
    finally:
        for name in reversed(names):
            stop(own, name, at_once=True)
        shutil.rmtree(own, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", required=True, type=pathlib.Path)
    actions = {"start": start, "crash": crash, "kill": kill, "again": again, "stop": stop}
    parser.add_argument("action", choices=(*actions, "with"))
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    names = arguments.name.split(",") if arguments.name else []
    unknown = sorted(set(names) - set(SERVERS))
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such server; there are {', '.join(sorted(SERVERS))}")
    arguments.state.mkdir(parents=True, exist_ok=True)
    if arguments.action == "stop" and not names:
        stop_all(arguments.state)
    elif arguments.action == "with" and names and arguments.command:
        sys.exit(run_with(arguments.state, names, arguments.command))
    elif arguments.action == "with" or arguments.command or len(names) != 1:
        parser.error(f"{arguments.action} needs the NAME of a server" +
                     (", and a command" if arguments.action == "with" else ""))
    else:
        said = actions[arguments.action](arguments.state, names[0])
        if said:
            print(said)


if __name__ == "__main__":
    main()
