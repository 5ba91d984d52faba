"""PostgreSQL, and what stands before it."""

import pathlib
import signal
import subprocess
import sys

from common import Server, call, conninfo_of, fields_of, free_port, make_home, program, spawn

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_level": "logical",
    "max_wal_size": "2GB",
    "max_prepared_transactions": "60",
    "max_wal_senders": "60",
    "max_replication_slots": "60",
    "hot_standby": "on",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


def answers(conninfo):
    return subprocess.run([program("psql"), "-XAtqc", "SELECT 1", conninfo], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def again(home):
    return spawn([program("postgres"), "-D", str(home / "data")], home)


def initialize(initdb, home):
    call([initdb, "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
          "--no-sync"])


def write_settings(home, port, more=None):
    settings = {**SETTINGS, "port": str(port), "unix_socket_directories": str(home), **(more or {})}
    with open(home / "data" / "postgresql.auto.conf", "a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())


def start_postgres(state, name):
    del state
    home, port = make_home(name), free_port()
    initialize(program("initdb"), home)
    write_settings(home, port)
    return home, again(home), f"host={home} port={port} user=postgres dbname=postgres"


def start_standby(state, name):
    home, port = make_home(name), free_port()
    call([program("pg_basebackup"), "-D", str(home / "data"), "-d", conninfo_of(state, "postgres"), "-R", "-c", "fast",
          "--no-sync"])
    write_settings(home, port)
    return home, again(home), f"host={home} port={port} user=postgres dbname=postgres"


def start_pgbouncer(state, name):
    home, port = make_home(name), free_port()
    fields = fields_of(conninfo_of(state, "postgres"))
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={fields['host']} port={fields['port']} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {home}\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\nserver_lifetime = 5\n",
        encoding="utf-8")
    process = spawn([program("pgbouncer"), str(home / "pgbouncer.ini")], home)
    return home, process, f"host={home} port={port} user=postgres dbname=postgres"


def start_proxy(state, name):
    home, port = make_home(name), free_port()
    fields = fields_of(conninfo_of(state, "postgres"))
    script = pathlib.Path(__file__).with_name("fault_proxy.py")
    # Not as another user, who may not be able to read the script.
    with open(home / "log", "ab") as log:
        process = subprocess.Popen([sys.executable, str(script), str(port), fields["port"], str(home / "record")],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return home, process, f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable gssencmode=disable"


# SIGINT ends sessions at once, SIGQUIT does not even write a checkpoint.
STOP = (signal.SIGINT, signal.SIGQUIT)
CLUSTER = Server("postgresql-15", ("postgres", "initdb", "psql"), start_postgres, answers, again, stop_signals=STOP,
                 crash_signal=signal.SIGQUIT)
SERVERS = {
    "postgres": CLUSTER,
    "other": CLUSTER,
    "standby": Server("postgresql-15", ("postgres", "pg_basebackup", "psql"), start_standby, answers, again,
                      stop_signals=STOP, crash_signal=signal.SIGQUIT),
    "pgbouncer": Server("pgbouncer", ("pgbouncer", "psql"), start_pgbouncer, answers, stop_signals=STOP),
    "proxy": Server("postgresql-15", ("psql",), start_proxy, answers, stop_signals=STOP),
}
