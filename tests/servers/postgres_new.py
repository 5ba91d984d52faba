"""A second PostgreSQL, newer than Debian's, which Maven fetches once. It comes with no clients: Debian's serve it."""

import lzma
import pathlib
import signal
import subprocess
import tarfile
import zipfile

import maven
from common import Server, call, conninfo_of, free_port, make_home, program, spawn, unprivileged
from postgres import STOP, answers, initialize, write_settings

POM = pathlib.Path(__file__).with_name("postgres_new") / "pom.xml"


def unpack(jars, folder):
    for jar in jars.glob("*.jar"):
        with zipfile.ZipFile(jar) as outer, outer.open("postgres-linux-x86_64.txz") as packed, \
                lzma.open(packed) as unpacked, tarfile.open(fileobj=unpacked) as inner:
            inner.extractall(folder)


def fetch():
    """None when the server is there, or why not."""
    return maven.fetch(POM, "postgres_new", unpack)


def of_new(name):
    return str(maven.folder_of(POM, "postgres_new") / "bin" / name)


def again(home):
    return spawn([of_new("postgres"), "-D", str(home / "data")], home)


def start_postgres(state, name):
    del state
    home, port = make_home(name), free_port()
    initialize(of_new("initdb"), home)
    write_settings(home, port)
    return home, again(home), f"host={home} port={port} user=postgres dbname=postgres"


def start_standby(state, name):
    """As pg_basebackup would make it, which refuses a server that is newer than itself."""
    home, port = make_home(name), free_port()
    conninfo = conninfo_of(state, "postgres_new")
    label = psql(conninfo, "-c", "SELECT pg_backup_start('standby', true)", "-c",
                 rf"\! cp -a '{(state / 'postgres_new.home').read_text(encoding='utf-8')}/data' '{home}'", "-c",
                 "SELECT labelfile FROM pg_backup_stop(false)").split("\n", 1)[1]
    call(["rm", "-rf", str(home / "data" / "postmaster.pid"), str(home / "data" / "pg_replslot")])
    call(["mkdir", str(home / "data" / "pg_replslot")])
    for file, text in (("backup_label", label.rstrip("\n") + "\n"), ("standby.signal", "")):
        call(["tee", str(home / "data" / file)], input=text.encode())
    write_settings(home, port, {"primary_conninfo": conninfo})
    return home, again(home), f"host={home} port={port} user=postgres dbname=postgres"


def psql(conninfo, *arguments):
    return subprocess.run([program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", conninfo, *arguments], check=True,
                          stdout=subprocess.PIPE, cwd="/", **unprivileged()).stdout.decode()


SERVERS = {
    name: Server("postgresql-15 or maven", ("psql", "mvn"), start, answers, again, before=fetch, stop_signals=STOP,
                 crash_signal=signal.SIGQUIT)
    for name, start in (("postgres_new", start_postgres), ("standby_new", start_standby))
}
