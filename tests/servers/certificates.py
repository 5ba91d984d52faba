#!/usr/bin/env python3
"""A throw-away certificate authority for tests of TLS, made with the program openssl.

    certificates.py FOLDER

FOLDER then holds, all readable by the unprivileged user that servers run as:

    ca.pem                     the authority that clients and servers are to trust
    server.pem, server.key     of a server, for localhost and 127.0.0.1
    client.pem, client.key     of a client, CN=client
    stranger.pem, stranger.key of a server by another name (stranger.example), signed by ca.pem as well
    expired.pem, expired.key   of a server, as server.pem, whose time is over
    other-ca.pem               another authority, which signed nothing here
    NAME-all.pem               of server, client and stranger: key and certificate in one file, as Kafka wants PEM
    NAME.p12                   the same as PKCS#12, for Java; the password is in the file `password`

Modules of servers call make(home / "certs") and name that folder in their conninfo as certs=FOLDER. A second call finds
what the first has made.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from common import give_away

PASSWORD = "throw-away"
DAYS = "30"
SERVER_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def openssl(*arguments, cwd):
    done = subprocess.run(["openssl", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, check=False)
    if done.returncode != 0:
        raise SystemExit(f"certificates.py: openssl {arguments[0]} failed:\n{done.stdout.decode(errors='replace')}")


def new_key(folder, name):
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key", cwd=folder)


def make_authority(folder, name):
    new_key(folder, name)
    openssl("req", "-x509", "-new", "-key", f"{name}.key", "-subj", f"/CN=Dovetail test {name}", "-days", DAYS, "-addext",
            "keyUsage=critical,keyCertSign,cRLSign", "-out", f"{name}.pem", cwd=folder)


def sign(folder, name, common_name, extensions, *validity):
    new_key(folder, name)
    openssl("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={common_name}", "-out", f"{name}.csr", cwd=folder)
    (folder / f"{name}.ext").write_text(
        f"basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n{extensions}\n", encoding="utf-8")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile",
            f"{name}.ext", "-out", f"{name}.pem", *(validity or ("-days", DAYS)), cwd=folder)


def pack(folder, name):
    key, certificate = ((folder / f"{name}.{ending}").read_text(encoding="utf-8") for ending in ("key", "pem"))
    (folder / f"{name}-all.pem").write_text(key + certificate, encoding="utf-8")
    openssl("pkcs12", "-export", "-inkey", f"{name}.key", "-in", f"{name}.pem", "-certfile", "ca.pem", "-name", name,
            "-passout", f"pass:{PASSWORD}", "-out", f"{name}.p12", cwd=folder)


def fill(folder):
    make_authority(folder, "ca")
    make_authority(folder, "other-ca")
    for_servers = "extendedKeyUsage=serverAuth\n"
    sign(folder, "server", "localhost", for_servers + SERVER_NAMES)
    sign(folder, "stranger", "stranger.example", for_servers + "subjectAltName=DNS:stranger.example")
    sign(folder, "client", "client", "extendedKeyUsage=clientAuth")
    # With a negative number of days it has expired before it begins.
    sign(folder, "expired", "localhost", for_servers + SERVER_NAMES, "-days", "-1")
    for name in ("server", "stranger", "client"):
        pack(folder, name)
    (folder / "password").write_text(PASSWORD, encoding="utf-8")
    for file in (*folder.glob("*.csr"), *folder.glob("*.ext"), *folder.glob("*.srl"), folder / "other-ca.key"):
        file.unlink(missing_ok=True)
    for file in folder.iterdir():
        file.chmod(0o640 if file.suffix in (".key", ".p12") else 0o644)
        give_away(file)


def make(folder):
    """The folder with everything in it. Several processes may ask at once."""
    folder = pathlib.Path(folder).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "password").exists():
            shutil.rmtree(folder, ignore_errors=True)
            # All files or none.
            made = pathlib.Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
            fill(made)
            made.chmod(0o755)
            give_away(made)
            os.rename(made, folder)
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(make(sys.argv[1]))
