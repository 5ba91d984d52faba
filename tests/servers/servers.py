#!/usr/bin/env python3
"""Real servers for tests: starts them on free loopback ports in folders of their own, and stops them again.

    servers.py --state FOLDER start NAME     NAME: postgres, other (a second, empty PostgreSQL cluster),
                                             standby (a hot standby of postgres), pgbouncer (before postgres),
                                             proxy (before postgres, loses what it is told to: fault_proxy.py)
    servers.py --state FOLDER crash NAME     a PostgreSQL ends at once, without a checkpoint, and starts again as it was
    servers.py --state FOLDER stop [NAME]    all, without NAME

FOLDER holds for each server NAME.conninfo (how to reach it), NAME.pid and NAME.home (its data and log). A server that
is not installed leaves NAME.missing with the reason, and `start` succeeds: the tests then say aloud that they are
skipped. Servers run as an unprivileged user when we are root, and write durably: fsync stays on.
"""

import argparse
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

WAIT_MAX_S = 60
ORDER = ("proxy", "pgbouncer", "standby", "other", "postgres")


def unprivileged():
    """Arguments for subprocess that give up root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    raise SystemExit("servers.py: neither the user postgres nor nobody exists; create one of them")


def user_name():
    arguments = unprivileged()
    return pwd.getpwuid(arguments.get("user", os.geteuid())).pw_name


def program(name):
    for found in sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True):
        return found
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_home(name):
    home = pathlib.Path(tempfile.mkdtemp(prefix=f"dovetail_{name}_"))
    arguments = unprivileged()
    if arguments:
        os.chown(home, arguments["user"], arguments["group"])
    return home


def call(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", **unprivileged(), **more)
    if done.returncode != 0:
        raise SystemExit(f"servers.py: {command[0]} failed:\n{done.stdout.decode(errors='replace')}")


def spawn(command, home):
    with open(home / "log", "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                start_new_session=True, **unprivileged())


def wait_until_ready(conninfo, process, home):
    end = time.monotonic() + WAIT_MAX_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        probe = subprocess.run([program("psql"), "-XAtqc", "SELECT 1", conninfo], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        if probe.returncode == 0:
            return
        time.sleep(0.05)
    raise SystemExit(f"servers.py: the server does not answer:\n{(home / 'log').read_text(errors='replace')[-2000:]}")


POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_level": "logical",
    "max_wal_size": "2GB",
    "max_prepared_transactions": "10",
    "hot_standby": "on",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


def start_cluster(home, port):
    settings = {**POSTGRES_SETTINGS, "port": str(port), "unix_socket_directories": str(home)}
    with open(home / "data" / "postgresql.auto.conf", "a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    return spawn([program("postgres"), "-D", str(home / "data")], home)


def start_postgres(state, name):
    del state
    home, port = make_home(name), free_port()
    call([program("initdb"), "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
          "--no-sync"])
    process = start_cluster(home, port)
    return home, process, f"host={home} port={port} user=postgres dbname=postgres"


def start_standby(state, name):
    home, port = make_home(name), free_port()
    primary = (state / "postgres.conninfo").read_text(encoding="utf-8").strip()
    call([program("pg_basebackup"), "-D", str(home / "data"), "-d", primary, "-R", "-c", "fast", "--no-sync"])
    process = start_cluster(home, port)
    return home, process, f"host={home} port={port} user=postgres dbname=postgres"


def start_pgbouncer(state, name):
    home, port = make_home(name), free_port()
    fields = dict(field.split("=", 1) for field in (state / "postgres.conninfo").read_text(encoding="utf-8").split())
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={fields['host']} port={fields['port']} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {home}\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\nserver_lifetime = 5\n",
        encoding="utf-8")
    process = spawn([program("pgbouncer"), str(home / "pgbouncer.ini")], home)
    return home, process, f"host={home} port={port} user=postgres dbname=postgres"


def start_proxy(state, name):
    home, port = make_home(name), free_port()
    fields = dict(field.split("=", 1) for field in (state / "postgres.conninfo").read_text(encoding="utf-8").split())
    script = pathlib.Path(__file__).with_name("fault_proxy.py")
    # Not as another user, who may not be able to read the script.
    with open(home / "log", "ab") as log:
        process = subprocess.Popen([sys.executable, str(script), str(port), fields["port"], str(home / "record")],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return home, process, f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable gssencmode=disable"


STARTERS = {
    "postgres": (start_postgres, ("postgres", "initdb", "psql"), "postgresql-15"),
    "other": (start_postgres, ("postgres", "initdb", "psql"), "postgresql-15"),
    "standby": (start_standby, ("postgres", "pg_basebackup", "psql"), "postgresql-15"),
    "pgbouncer": (start_pgbouncer, ("pgbouncer", "psql"), "pgbouncer"),
    "proxy": (start_proxy, ("psql",), "postgresql-15"),
}


def start(state, name):
    stop(state, name)
    starter, programs, package = STARTERS[name]
    missing = [wanted for wanted in programs if program(wanted) is None]
    if missing:
        reason = f"{', '.join(missing)} not found; install the package {package}"
        (state / f"{name}.missing").write_text(reason + "\n", encoding="utf-8")
        print(f"servers.py: {name}: {reason}; its tests will be skipped", file=sys.stderr)
        return
    home, process, conninfo = starter(state, name)
    (state / f"{name}.pid").write_text(str(process.pid), encoding="utf-8")
    (state / f"{name}.home").write_text(str(home), encoding="utf-8")
    wait_until_ready(conninfo, process, home)
    (state / f"{name}.conninfo").write_text(conninfo + "\n", encoding="utf-8")
    print(conninfo)


def is_ours(pid, home):
    """Whether the process still is the server that was started in that folder: numbers of processes come back."""
    try:
        return str(home).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def stop(state, name):
    pid_file, home_file = state / f"{name}.pid", state / f"{name}.home"
    if pid_file.exists() and home_file.exists():
        pid, home = int(pid_file.read_text(encoding="utf-8")), pathlib.Path(home_file.read_text(encoding="utf-8"))
        # PostgreSQL: SIGINT ends sessions at once, SIGQUIT does not even write a checkpoint.
        for sign in (signal.SIGINT, signal.SIGQUIT):
            end = time.monotonic() + WAIT_MAX_S / 2
            if is_ours(pid, home):
                os.kill(pid, sign)
            while is_ours(pid, home) and not is_gone(pid) and time.monotonic() < end:
                time.sleep(0.02)
        shutil.rmtree(home, ignore_errors=True)
    for file in state.glob(f"{name}.*"):
        file.unlink()


def crash(state, name):
    """As `pg_ctl restart -m immediate` does it."""
    pid, home = (pathlib.Path(state / f"{name}.{what}").read_text(encoding="utf-8") for what in ("pid", "home"))
    pid, home = int(pid), pathlib.Path(home)
    os.kill(pid, signal.SIGQUIT)
    while is_ours(pid, home) and not is_gone(pid):
        time.sleep(0.01)
    process = spawn([program("postgres"), "-D", str(home / "data")], home)
    (state / f"{name}.pid").write_text(str(process.pid), encoding="utf-8")
    wait_until_ready((state / f"{name}.conninfo").read_text(encoding="utf-8").strip(), process, home)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", required=True, type=pathlib.Path)
    parser.add_argument("action", choices=("start", "crash", "stop"))
    parser.add_argument("name", nargs="?", choices=sorted(STARTERS))
    arguments = parser.parse_args()
    arguments.state.mkdir(parents=True, exist_ok=True)
    if arguments.action == "stop":
        for name in (arguments.name,) if arguments.name else ORDER:
            stop(arguments.state, name)
    elif arguments.name is None:
        parser.error(f"{arguments.action} needs the NAME of a server")
    elif arguments.action == "crash":
        crash(arguments.state, arguments.name)
    else:
        start(arguments.state, arguments.name)


if __name__ == "__main__":
    main()
