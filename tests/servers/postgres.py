"""PostgreSQL, and the poolers and proxies before it."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys

import certificates
import postgres_versions
from common import Server, call, conninfo_of, fields_of, free_port, make_home, program, spawn, unprivileged
from postgres_versions import program_of

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
PACKAGES = "postgresql-15"
# SIGINT ends sessions at once; SIGQUIT also skips the checkpoint.
STOP = (signal.SIGINT, signal.SIGQUIT)


def answers(conninfo):
    return subprocess.run([program("psql"), "-XAtqc", "SELECT 1", conninfo], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def psql(conninfo, *arguments):
    return subprocess.run([program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", conninfo, *arguments], check=True,
                          stdout=subprocess.PIPE, cwd="/", **unprivileged()).stdout.decode()


def write_settings(home, port, more=None):
    settings = {**SETTINGS, "port": str(port), "unix_socket_directories": str(home), **(more or {})}
    with open(home / "data" / "postgresql.auto.conf", "a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    return f"host={home} port={port} user=postgres dbname=postgres"


def copy(state, primary, home):
    """Like pg_basebackup, which refuses a server newer than itself."""
    conninfo = conninfo_of(state, primary)
    data = psql(conninfo, "-c", "SHOW data_directory").strip()
    label = psql(conninfo, "-c", "SELECT pg_backup_start('standby', true)", "-c", rf"\! cp -a '{data}' '{home}'", "-c",
                 "SELECT labelfile FROM pg_backup_stop(false)").split("\n", 1)[1]
    call(["rm", "-rf", str(home / "data" / "postmaster.pid"), str(home / "data" / "pg_replslot")])
    call(["mkdir", str(home / "data" / "pg_replslot")])
    for file, text in (("backup_label", label.rstrip("\n") + "\n"), ("standby.signal", "")):
        call(["tee", str(home / "data" / file)], input=text.encode())


def cluster(version):
    def again(home):
        return spawn([program_of(version, "postgres"), "-D", str(home / "data")], home)

    def start(state, name):
        del state
        home = make_home(name)
        call([program_of(version, "initdb"), "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8",
              "--locale=C.UTF-8", "--no-sync"])
        conninfo = write_settings(home, free_port())
        return home, again(home), conninfo

    return Server(PACKAGES, ("postgres", "initdb", "psql"), start, answers, again,
                  before=lambda: postgres_versions.fetch(version), stop_signals=STOP, crash_signal=signal.SIGQUIT)


def standby(version, primary):
    """A hot standby of the server `primary`."""
    of_its_kind = cluster(version)

    def start(state, name):
        home = make_home(name)
        if int(version) > int(postgres_versions.DEBIAN):
            copy(state, primary, home)
        else:
            call([program("pg_basebackup"), "-D", str(home / "data"), "-d", conninfo_of(state, primary), "-R", "-c",
                  "fast", "--no-sync"])
        conninfo = write_settings(home, free_port(), {"primary_conninfo": conninfo_of(state, primary)})
        return home, of_its_kind.again(home), conninfo

    return dataclasses.replace(of_its_kind, programs=("pg_basebackup", *of_its_kind.programs), start=start)


def tls(version):
    """A server that requires TLS, except on its Unix socket."""
    of_its_kind = cluster(version)

    def start(state, name):
        del state
        home, port = make_home(name), free_port()
        call([program_of(version, "initdb"), "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8",
              "--locale=C.UTF-8", "--no-sync"])
        certs = certificates.make(home / "certs")
        (certs / "server.key").chmod(0o600)  # the server refuses a key that its group may read
        write_settings(home, port, {"ssl": "on", "ssl_cert_file": str(certs / "server.pem"),
                                    "ssl_key_file": str(certs / "server.key")})
        call(["tee", str(home / "data" / "pg_hba.conf")],
             input=b"local all all trust\nhostssl all all 127.0.0.1/32 trust\nhostssl replication all 127.0.0.1/32 trust\n")
        return home, of_its_kind.again(home), (
            f"host=localhost hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=verify-full "
            f"sslrootcert={certs}/ca.pem")

    return dataclasses.replace(of_its_kind, start=start)


def full_disk(version):
    """A server whose disk is full while the file `full` is in its home, and the disk of its log while `log_full` is.
    Its home is the folder of its socket."""
    of_its_kind = cluster(version)

    def again(home):
        return spawn([program_of(version, "postgres"), "-D", str(home / "data")], home, env={
            **os.environ, "LD_PRELOAD": str(home / "full_disk.so"), "DOVETAIL_DISK": str(home / "data"),
            "DOVETAIL_DISK_FULL": str(home / "full"), "DOVETAIL_DISK_LOG_FULL": str(home / "log_full")})

    def start(state, name):
        del state
        home = make_home(name)
        # Small WAL files, with none kept in reserve: the WAL soon needs space.
        call([program_of(version, "initdb"), "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8",
              "--locale=C.UTF-8", "--no-sync", "--wal-segsize=1"])
        conninfo = write_settings(home, free_port(), {"wal_recycle": "off", "min_wal_size": "2MB", "fsync": "off"})
        call(["tee", str(home / "full_disk.c")], input=pathlib.Path(__file__).with_name("full_disk.c").read_bytes())
        call([program("cc"), "-O1", "-shared", "-fPIC", "-o", str(home / "full_disk.so"), str(home / "full_disk.c"), "-ldl"])
        return home, again(home), conninfo

    return dataclasses.replace(of_its_kind, programs=("cc", *of_its_kind.programs), package=f"{PACKAGES} and gcc", start=start,
                               again=again)


def start_pgbouncer(state, name):
    home, port = make_home(name), free_port()
    behind = "postgres" if (state / "postgres.conninfo").exists() else "postgres_new"
    fields = fields_of(conninfo_of(state, behind))
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={fields['host']} port={fields['port']} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {home}\nauth_type = any\n"
        "admin_users = postgres\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\nserver_lifetime = 5\n",
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


CHOSEN, NEWEST = postgres_versions.chosen(), postgres_versions.NEWEST
SERVERS = {
    "postgres": cluster(CHOSEN),
    "other": cluster(CHOSEN),
    "standby": standby(CHOSEN, "postgres"),
    "postgres_tls": tls(CHOSEN),
    "postgres_full": full_disk(CHOSEN),
    "postgres_new": cluster(NEWEST),
    "standby_new": standby(NEWEST, "postgres_new"),
    "pgbouncer": Server("pgbouncer", ("pgbouncer", "psql"), start_pgbouncer, answers, stop_signals=STOP),
    "proxy": Server("postgresql-15", ("psql",), start_proxy, answers, stop_signals=STOP),
}
