"""Wrong input and a world that is not as it should be: each a clear error with its exit code, and nothing is lost."""

import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import unittest
import uuid

import harness

PUBLISH = ("publish", "--store", "orders", "--aggregate-type", "orders", "--type", "T")


class Usage(harness.Case):
    def test_wrong_command_lines_exit_2(self):
        for arguments in ((), ("fly",), ("run", "--fast"), ("publish", "--type", "x"), ("events", "--limit", "0"),
                          ("parked",), ("events", "--state", "lost"), ("status", "extra")):
            result = self.refused(*arguments, code=2, name="usage")
            self.assertIn("--help", result.err)

    def test_publish_needs_one_payload(self):
        self.init()
        self.refused(*PUBLISH, code=2, name="usage", says=["--payload"])
        self.dovetail(*PUBLISH, "--payload", "1", "--payload-file", "y", code=2)


class Config(harness.Case):
    def wrong(self, text, *says):
        self.write("dovetail.toml", text)
        for command in (("status",), ("run",), PUBLISH + ("--payload", "1"), ("init",)):
            self.refused(*command, code=3, name="config", says=says)

    def test_config_errors_name_file_line_and_what_is_allowed(self):
        store = '[store.orders]\nurl = "sqlite:orders.db"\n'
        self.wrong("[store.orders\n", "dovetail.toml:1:")
        self.wrong(store + "payload_maxx = 3\n", "dovetail.toml:3:1:", 'did you mean "payload_max"?', "url, payload_max")
        self.wrong(store + '[log]\nformat = "xml"\n', "dovetail.toml:4:10: log.format:", '"text", "json"')
        self.wrong(store + '[[relay]]\nname = "r"\nfrom = "ordres"\nto = "orders"\n', "dovetail.toml:5:8:",
                   'did you mean "orders"?')
        self.wrong('[store.orders]\nurl = "kafka:orders"\n', "dovetail.toml:2:7:", "sqlite:PATH")
        self.wrong("", "[store.NAME]")

    def test_a_missing_config_file_says_how_to_get_one(self):
        self.refused("-c", "nowhere.toml", "status", code=3, name="config", says=["nowhere.toml", "dovetail init"])

    def test_run_without_relays_and_with_unknown_relays(self):
        self.init()
        self.refused("run", "nope", code=5, name="rejected", says=["orders-to-inventory"])
        self.write("dovetail.toml", '[store.orders]\nurl = "sqlite:orders.db"\n')
        self.refused("run", code=3, name="config", says=["[[relay]]"])


class Events(harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def rejected(self, *arguments, says=(), **more):
        self.refused(*arguments, code=5, name="rejected", says=says, **more)
        self.assertEqual(self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox"), [(0,)], "nothing was stored")

    def test_unknown_store(self):
        self.rejected("publish", "--store", "ordesr", "--aggregate-type", "a", "--type", "t", "--payload", "1",
                      says=['did you mean "orders"?', "inventory"])

    def test_unknown_topic(self):
        self.rejected(*PUBLISH, "--payload", "1", "--topic", "invoices.events", says=["invoices.events", "orders.events"])
        self.rejected("publish", "--store", "orders", "--aggregate-type", "invoices", "--type", "t", "--payload", "1",
                      says=["invoices.events"])

    def test_empty_payload(self):
        self.rejected(*PUBLISH, "--payload", "", says=["payload"])
        self.rejected(*PUBLISH, "-", stdin=b"", says=["payload"])

    def test_oversized_payload_and_the_limit_of_the_config(self):
        self.rejected(*PUBLISH, "-", stdin=b"x" * ((1000 << 10) + 1), says=["payload"])
        self.write("dovetail.toml", harness.CONFIG.replace('orders.db"', 'orders.db"\npayload_max = "10B"'))
        self.rejected(*PUBLISH, "--payload", "12345678901", says=["payload"])
        self.dovetail(*PUBLISH, "--payload", "1234567890")

    def test_an_endless_payload_ends_in_an_error(self):
        self.rejected(*PUBLISH, "--payload-file", "/dev/zero", says=["payload"])
        self.rejected(*PUBLISH, "--payload-file", "nowhere.json", says=["nowhere.json"])

    def test_a_payload_that_is_declared_as_json_must_be_json(self):
        for content_type in ("application/json", "application/problem+json; charset=utf-8"):
            said = self.refused(*PUBLISH, "--payload", '{"hush-hush": ', "--content-type", content_type, code=5, name="rejected",
                                says=["not valid JSON"])
            self.assertNotIn("hush-hush", said.err)
        self.rejected(*PUBLISH, "--payload", "broken", says=["--content-type text/plain"])
        self.dovetail(*PUBLISH, "--payload", "broken", "--content-type", "text/plain")

    def test_key_and_type_too_long(self):
        self.rejected(*PUBLISH, "--payload", "1", "--key", "k" * 1025, says=["1024"])
        self.rejected("publish", "--store", "orders", "--aggregate-type", "orders", "--type", "t" * 256, "--payload",
                      "x", says=["255"])
        self.rejected("publish", "--store", "orders", "--aggregate-type", "a" * 256, "--type", "t", "--payload", "1",
                      says=["255"])

    def test_invalid_utf8_in_text_fields(self):
        for option in ("--key", "--content-type", "--topic"):
            self.rejected(*PUBLISH, "--payload", "1", option, b"caf\xe9", says=["UTF-8"])
        self.rejected(*PUBLISH, "--payload", "1", "--header", b"name=caf\xe9", says=["UTF-8"])

    def test_malformed_headers(self):
        for header in ("novalue", "=value", "bad\nname=x"):
            self.rejected(*PUBLISH, "--payload", "1", "--header", header, says=["header"])
        self.rejected(*PUBLISH, "--payload", "1", "--header", "big=" + "x" * (17 << 10), says=["header"])

    def test_malformed_id(self):
        self.rejected(*PUBLISH, "--payload", "1", "--id", "17")

    def test_duplicate_id_with_other_content(self):
        same = str(uuid.uuid4())
        self.publish("--id", same)
        self.refused(*PUBLISH, "--key", "17", "--payload", '"other"', "--id", same, code=5, name="rejected", says=[same])
        self.assertEqual(self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox"), [(1,)])

    def test_an_error_text_never_shows_the_payload(self):
        result = self.run_dovetail(*PUBLISH, "--payload", '"hush-hush"', "--topic", "nowhere")
        self.assertEqual(result.code, 5)
        self.assertNotIn(b"hush-hush", result.out + result.err)


class Stores(harness.Case):
    def test_a_store_without_tables_says_what_to_do(self):
        self.refused("run", "--until-idle", code=4, name="unavailable", says=["init"])
        self.publish(code=4)

    def test_a_newer_schema_is_left_alone(self):
        self.init()
        self.publish()
        self.change("orders.db", "UPDATE dovetail_schema SET version = 99")
        before = (self.folder / "orders.db").read_bytes()
        for command in (("init",), ("run",), ("run", "--until-idle"), PUBLISH + ("--payload", "1"),
                        ("events", "--store", "orders"), ("parked", "list"), ("prune", "--delivered", "1s")):
            self.refused(*command, code=6, name="corrupt", says=["99", "upgrade"])
        self.dovetail("status", code=6)
        self.assertEqual(self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox"), [(1,)])
        self.assertEqual((self.folder / "orders.db").read_bytes(), before)

    def test_a_file_that_is_no_database(self):
        self.write("orders.db", b"this is not a database, whatever its name says" * 100)
        for command in (("init",), PUBLISH + ("--payload", "1"), ("run", "--until-idle")):
            self.refused(*command, code=6, name="corrupt", says=["orders"])

    def test_a_locked_file_is_waited_for_and_then_an_error(self):
        self.init()
        holder = sqlite3.connect(self.folder / "orders.db", isolation_level=None)
        self.addCleanup(holder.close)
        holder.execute("BEGIN IMMEDIATE")
        result = self.publish(code=4)
        self.assertIn("lock", result.err)
        holder.execute("ROLLBACK")
        self.publish()
        self.assertEqual(self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox"), [(1,)])

    def test_a_folder_that_does_not_exist(self):
        self.write("dovetail.toml", '[store.orders]\nurl = "sqlite:no/such/folder/orders.db"\n')
        self.refused("init", code=4, name="unavailable", says=["orders"])


def mounted(options):
    """A small file system of its own, or None where that is not allowed."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dovetail-mount-"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True).returncode != 0:
        folder.rmdir()
        return None
    return folder


class Disks(harness.Case):
    def mount(self, options):
        folder = mounted(options)
        if folder is None:
            self.skipTest("needs the right to mount a small file system")
        self.addCleanup(folder.rmdir)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        self.write("dovetail.toml", harness.CONFIG.replace("sqlite:orders.db", f"sqlite:{folder}/orders.db"))
        self.init()
        self.disk = folder
        return folder

    def test_a_full_disk_rejects_the_publish_and_loses_nothing(self):
        folder = self.mount("size=512k")
        self.publish()
        filler = folder / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        self.refused(*PUBLISH, "-", stdin=b'"' + b"1" * 200_000 + b'"', code=4, name="unavailable", says=["disk"])
        filler.unlink()
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox"), [(2,)])

    def test_a_read_only_disk_is_an_error_and_loses_nothing(self):
        folder = self.mount("size=4m")
        self.publish()
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        self.refused(*PUBLISH, "--payload", "1", code=4, name="unavailable", says=["permissions"])
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox"), [(2,)])


class Permissions(harness.Case):
    @unittest.skipIf(os.geteuid() == 0, "permissions do not bind root; the read-only disk is tested instead")
    def test_a_read_only_file_is_an_error(self):
        self.init()
        for path in self.folder.glob("orders.db*"):
            path.chmod(0o444)
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        self.refused(*PUBLISH, "--payload", "1", code=4, name="unavailable")


if __name__ == "__main__":
    harness.main()
