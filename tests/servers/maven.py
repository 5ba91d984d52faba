"""Servers without a Debian package: Maven fetches them once, into a folder of the user."""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from common import program

FETCH_MAX_S = 240


def folder_of(pom, what):
    """Of this pom and this user, where the unprivileged user of the server can read it."""
    mark = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    return pathlib.Path(os.environ.get("DOVETAIL_FETCHED") or tempfile.gettempdir()) / f"dovetail_{what}_{os.geteuid()}_{mark}"


def fetch(pom, what, unpack=None, properties=()):
    """None when folder_of() is there, or why not. `unpack` makes the folder (second) of the jars (first), else it holds
    the jars themselves. `properties`, NAME=VALUE, are those that the pom leaves open; `what` tells them apart."""
    folder = folder_of(pom, what)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return None if folder.stat().st_uid == os.geteuid() else f"{folder} belongs to somebody else; remove it"
        if os.environ.get("DOVETAIL_NO_INSTALL"):
            return f"{what} is not there, and DOVETAIL_NO_INSTALL forbids to fetch it"
        partial = pathlib.Path(tempfile.mkdtemp(prefix=f"dovetail_{what}_partial_"))
        try:
            return fetch_into(partial, folder, pom, what, unpack, properties)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def fetch_into(partial, folder, pom, what, unpack, properties):
    # Maven writes beside its pom, whose folder may be read-only.
    shutil.copy(pom, partial / "pom.xml")
    try:
        done = subprocess.run(
            [program("mvn"), "-q", "-B", "-f", str(partial / "pom.xml"), "dependency:copy-dependencies",
             f"-DoutputDirectory={partial / 'jars'}", "-DincludeScope=runtime",
             *(f"-D{property}" for property in properties)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=FETCH_MAX_S, check=False)
    except subprocess.TimeoutExpired:
        return f"Maven did not fetch {what} within {FETCH_MAX_S} s; check the network"
    if done.returncode != 0:
        errors = re.findall(r"\[ERROR\] (.*)", done.stdout.decode(errors="replace"))
        return f"Maven could not fetch {what}; check the network: {(errors or ['it said nothing'])[0][:300]}"
    made = partial / "jars"
    if unpack:
        made = partial / "unpacked"
        made.mkdir()
        unpack(partial / "jars", made)
    made.chmod(0o755)
    shutil.rmtree(f"{folder}.new", ignore_errors=True)
    shutil.copytree(made, f"{folder}.new", symlinks=True)
    os.rename(f"{folder}.new", folder)
    return None
