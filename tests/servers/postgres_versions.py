"""Servers of PostgreSQL by version: Debian's, or one that Maven fetches once. The latter come with no clients: Debian's
serve them."""

import lzma
import os
import pathlib
import tarfile
import zipfile

import maven
from common import program

POM = pathlib.Path(__file__).with_name("postgres_versions") / "pom.xml"
FETCHED = {"13": "13.23.0", "14": "14.24.0", "16": "16.15.0", "17": "17.11.0", "18": "18.4.0"}
NEWEST = "18"
DEBIAN = "15"


def chosen():
    """The default version of servers in tests."""
    version = os.environ.get("DOVETAIL_SERVERS_POSTGRES") or DEBIAN
    if version != DEBIAN and version not in FETCHED:
        raise SystemExit(f"servers.py: DOVETAIL_SERVERS_POSTGRES is {version}; "
                         f"it can be {', '.join(sorted({DEBIAN, *FETCHED}))}")
    return version


def unpack(jars, folder):
    for jar in jars.glob("*.jar"):
        with zipfile.ZipFile(jar) as outer, outer.open("postgres-linux-x86_64.txz") as packed, \
                lzma.open(packed) as unpacked, tarfile.open(fileobj=unpacked) as inner:
            inner.extractall(folder)


def what(version):
    return f"postgres_{FETCHED[version]}"


def fetch(version):
    """None if the server is there, or why not."""
    if version == DEBIAN:
        return None
    return maven.fetch(POM, what(version), unpack, [f"postgres.version={FETCHED[version]}"])


def program_of(version, name):
    return program(name) if version == DEBIAN else str(maven.folder_of(POM, what(version)) / "bin" / name)
