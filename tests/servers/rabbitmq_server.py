"""RabbitMQ, plain and with TLS, with its management API (user and password guest). Distribution and its name server
(epmd) are its own, too, and all listen on 127.0.0.1; TLS also on 127.0.0.2, for which the certificate is not.

conninfo: host port tls_port management_port certs home. The home has `rabbitmqctl`, which talks to this server.
"""

import base64
import os
import pathlib
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

from certificates import make as make_certificates
from common import Server, fields_of, free_port, give_away, make_home, program, spawn, unprivileged

SCRIPTS = "/usr/lib/rabbitmq/bin"
PLUGINS = "[rabbitmq_management].\n"
CONFIG = """listeners.tcp.local = 127.0.0.1:{port}
management.tcp.ip = 127.0.0.1
management.tcp.port = {management_port}
management.rates_mode = none
log.file = false
log.console = true
log.console.level = info
disk_free_limit.absolute = 50MB
max_message_size = 4194304
cluster_name = dovetail
listeners.ssl.local = 127.0.0.1:{tls_port}
listeners.ssl.other = 127.0.0.2:{tls_port}
ssl_options.cacertfile = {certs}/ca.pem
ssl_options.certfile = {certs}/server.pem
ssl_options.keyfile = {certs}/server.key
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
"""


def environment(home):
    """Read back from the file that `rabbitmqctl` of this server sources, too."""
    lines = (home / "environment").read_text(encoding="utf-8").splitlines()
    return {**os.environ, **dict(line.split("=", 1) for line in lines)}


def write_environment(home, port):
    loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
    ctl_port = free_port()
    values = {
        "HOME": home,
        "ERL_EPMD_PORT": free_port(),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"dovetail{port}@localhost",
        "RABBITMQ_DIST_PORT": free_port(),
        "RABBITMQ_CTL_DIST_PORT_MIN": ctl_port,
        "RABBITMQ_CTL_DIST_PORT_MAX": ctl_port + 20,
        "RABBITMQ_CTL_ERL_ARGS": f"+sbwt none {loopback}",
        "RABBITMQ_MNESIA_BASE": home / "data",
        "RABBITMQ_LOG_BASE": home / "logs",
        "RABBITMQ_ENABLED_PLUGINS_FILE": home / "plugins",
        "RABBITMQ_CONF_ENV_FILE": home / "none",
        "RABBITMQ_CONFIG_FILE": home / "rabbitmq.conf",
        "RABBITMQ_ADVANCED_CONFIG_FILE": home / "none",
        "RABBITMQ_GENERATED_CONFIG_DIR": home / "generated",
        "RABBITMQ_PID_FILE": home / "rabbitmq.pid",
        # The folder is named so that the process can be told from others; the flag means nothing.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"+S 2:2 +A 8 +sbwt none +sbwtdcpu none +sbwtdio none {loopback} -dovetail_home {home}",
        # The script becomes the server instead of waiting for it, and signals reach the server.
        "detached": "true",
    }
    (home / "environment").write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="utf-8")
    # For tests: the server's own tool, with all that it needs to find this server.
    exports = "".join(f"export {name}='{value}'\n" for name, value in values.items() if name != "detached")
    script = home / "rabbitmqctl"
    script.write_text(f"#!/bin/sh\n{exports}exec {SCRIPTS}/rabbitmqctl \"$@\"\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def epmd_pid(home):
    try:
        return int((home / "epmd.pid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def is_epmd(pid):
    try:
        return b"epmd" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def start_epmd(home, values):
    if is_epmd(epmd_pid(home)):
        return
    process = spawn([program("epmd"), "-address", "127.0.0.1", "-port", values["ERL_EPMD_PORT"]], home, env=values)
    (home / "epmd.pid").write_text(str(process.pid), encoding="utf-8")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(values["ERL_EPMD_PORT"]))) == 0:
                return
        time.sleep(0.02)


def after(home):
    pid = epmd_pid(home)
    if is_epmd(pid):
        os.kill(pid, signal.SIGTERM)


def again(home):
    values = environment(home)
    start_epmd(home, values)
    return spawn([f"{SCRIPTS}/rabbitmq-server"], home, env=values)


def ask(conninfo, path, method="GET", body=None):
    """The management API's answer; None: no answer, or an error."""
    fields = fields_of(conninfo)
    request = urllib.request.Request(f"http://127.0.0.1:{fields['management_port']}/api/{path}", method=method, data=body)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError):
        return None


def answers(conninfo):
    fields = fields_of(conninfo)
    try:
        with socket.create_connection(("127.0.0.1", int(fields["port"])), timeout=5):
            pass
    except OSError:
        return False
    return ask(conninfo, "vhosts/%2F") is not None


def start_rabbitmq(state, name):
    del state
    home, port, management_port, tls_port = make_home(name), free_port(), free_port(), free_port()
    write_environment(home, port)
    certs = make_certificates(home / "certs")
    config = CONFIG.format(port=port, management_port=management_port, tls_port=tls_port, certs=certs)
    (home / "rabbitmq.conf").write_text(config, encoding="utf-8")
    (home / "plugins").write_text(PLUGINS, encoding="utf-8")
    for folder in ("data", "logs", "generated"):
        (home / folder).mkdir()
        give_away(home / folder)
    return home, again(home), (f"host=127.0.0.1 port={port} tls_port={tls_port} management_port={management_port} "
                               f"certs={certs} home={home}")


def write_down_queues(home):
    """A server of this version that is killed while it moves its log into its tables, as it does soon after its first
    start, may find neither: a queue that was declared a second before is gone then, with all messages that were
    confirmed. Seen once in 28 first starts with two connections that declare the queue, and no client of ours."""
    try:
        subprocess.run([home / "rabbitmqctl", "-q", "eval", "mnesia:dump_log()."], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False, cwd="/",
                       **unprivileged())
    except subprocess.TimeoutExpired:
        pass  # it stands still, on purpose


def why_not():
    return None if pathlib.Path(SCRIPTS, "rabbitmq-server").exists() else f"{SCRIPTS} not found; install rabbitmq-server"


# A clean stop takes seconds, and nobody reads what it would save.
RABBITMQ = Server("rabbitmq-server", ("rabbitmqctl", "epmd", "erl", "openssl"), start_rabbitmq, answers, again, why_not,
                  after, before_crash=write_down_queues, stop_signals=(signal.SIGKILL,))
SERVERS = {"rabbitmq": RABBITMQ}
