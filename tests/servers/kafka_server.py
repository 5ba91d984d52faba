"""Apache Kafka: one node that is broker and controller (KRaft), from its jars, which Maven fetches once."""

import base64
import pathlib
import random
import socket
import subprocess
import uuid

import certificates
import maven
from common import Server, call, fields_of, give_away, make_home, program, spawn

POM = pathlib.Path(__file__).with_name("kafka") / "pom.xml"
# A small heap and only the fast compiler: the server has few and small messages, and must start soon. Java's statistics
# are a file in /tmp that it writes while all its threads wait, so a disk that hangs would stop the server.
JAVA = ("-XX:+PerfDisableSharedMem", "-Xms128m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
PASSWORDS = {"admin": "admin-secret", "limited": "limited-secret"}

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,PROXIED:PLAINTEXT,SASL:SASL_PLAINTEXT,"
                                      "TLS:SSL,STRANGER:SSL,MUTUAL:SSL,SASL_TLS:SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.mutual.ssl.client.auth": "required",
    # Anonymous users may do everything, other users everything without an ACL.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
    "num.partitions": "3",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # Short enough for a test: deletion of topics, rolling of segments.
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "file.delete.delay.ms": "1000",
    "log.segment.bytes": "67108864",
    "log.index.size.max.bytes": "1048576",
    # A killed broker may join again when its session has timed out.
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "500",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
}


def jars_folder():
    return maven.folder_of(POM, "kafka_jars")


def fetch():
    """None if the jars are there, or why not."""
    return maven.fetch(POM, "kafka_jars")


def java(home, *arguments):
    return [program("java"), *JAVA, f"-Ddovetail.home={home}", "-cp", f"{jars_folder()}/*", *arguments]


def again(home):
    return spawn(java(home, "kafka.Kafka", str(home / "server.properties")), home)


def sasl_settings():
    plain = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    modules = "org.apache.kafka.common.security"
    return {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": f"{modules}.{module} required {users};"
        for listener in ("sasl", "sasl_tls")
        for mechanism, module, users in (("plain", "plain.PlainLoginModule", plain),
                                         ("scram-sha-256", "scram.ScramLoginModule", ""))
    }


def tls_settings(certs):
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": certs / "server-all.pem",
                "ssl.truststore.type": "PEM", "ssl.truststore.location": certs / "ca.pem"}
    stranger = {"listener.name.stranger.ssl.keystore.type": "PEM",
                "listener.name.stranger.ssl.keystore.location": certs / "stranger-all.pem"}
    return {**settings, **stranger}


def listeners():
    """The settings of the addresses, and the conninfo. Who asks at `behind_port` is told to go on at `proxy_port`,
    where a test that wants to come between puts its proxy."""
    listening = {"PLAIN": "port", "PROXIED": "behind_port", "SASL": "sasl_port", "TLS": "tls_port",
                 "SASL_TLS": "sasl_tls_port", "STRANGER": "stranger_port", "MUTUAL": "mutual_port",
                 "CONTROLLER": "controller_port"}
    fields = (*listening.values(), "proxy_port")
    ports = dict(zip(fields, distinct_ports(len(fields))))
    told = {name: field for name, field in listening.items() if name != "CONTROLLER"}
    told["PROXIED"] = "proxy_port"
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{ports[field]}" for name, field in listening.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{ports[field]}" for name, field in told.items()),
        "controller.quorum.voters": f"1@127.0.0.1:{ports['controller_port']}",
    }
    return settings, "host=127.0.0.1 " + " ".join(f"{name}={port}" for name, port in ports.items())


def distinct_ports(count):
    """Below the range of outgoing connections, so that the port stays unused for long."""
    ports = set()
    while len(ports) < count:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                ports.add(port)
            except OSError:
                continue
    return sorted(ports)


UNSAFE = {
    "auto.create.topics.enable": "true",
    "unclean.leader.election.enable": "true",
    "offsets.retention.minutes": "60",
}


def start_kafka(state, name):
    del state
    home = make_home(name)
    addresses, conninfo = listeners()
    certs = certificates.make(home / "certs")
    settings = {**SETTINGS, **addresses, **sasl_settings(), **tls_settings(certs), "log.dirs": home / "data",
                **(UNSAFE if name == "kafka_unsafe" else {})}
    file = home / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    give_away(file)
    # A first letter, because an id that begins with "-" is taken for an option.
    cluster = "d" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    scram = [f"--add-scram=SCRAM-SHA-256=[name={user},password={password}]" for user, password in PASSWORDS.items()]
    call(java(home, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(file), *scram))
    return home, again(home), f"{conninfo} certs={certs}"


def ready(conninfo):
    return subprocess.run([program("kcat"), "-b", f"127.0.0.1:{fields_of(conninfo)['port']}", "-L", "-m", "2",
                           "-X", "log_level=0"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


KAFKA = Server("maven, default-jre-headless, kcat or openssl", ("mvn", "java", "kcat", "openssl"), start_kafka, ready,
               again, before=fetch)
SERVERS = {"kafka": KAFKA, "kafka_unsafe": KAFKA}
