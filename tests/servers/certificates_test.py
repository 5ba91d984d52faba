#!/usr/bin/env python3
"""What certificates.py makes is accepted and refused by OpenSSL as its tests rely on."""

import pathlib
import subprocess
import tempfile
import unittest

import certificates


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = certificates.make(pathlib.Path(cls.temporary.name) / "certs")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def verify(self, name, *arguments, authority="ca"):
        done = subprocess.run(["openssl", "verify", "-CAfile", f"{authority}.pem", *arguments, f"{name}.pem"],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode == 0, done.stdout.decode()

    def test_the_server_is_trusted_by_both_its_names(self):
        for name in (("-verify_hostname", "localhost"), ("-verify_ip", "127.0.0.1")):
            good, text = self.verify("server", "-purpose", "sslserver", *name)
            self.assertTrue(good, text)

    def test_the_client_is_trusted_as_a_client_only(self):
        self.assertTrue(self.verify("client", "-purpose", "sslclient")[0])
        self.assertFalse(self.verify("client", "-purpose", "sslserver")[0])

    def test_the_other_authority_signed_nothing(self):
        for name in ("server", "client", "stranger"):
            self.assertFalse(self.verify(name, authority="other-ca")[0])

    def test_the_stranger_is_trusted_by_another_name_only(self):
        self.assertTrue(self.verify("stranger", "-verify_hostname", "stranger.example")[0])
        good, text = self.verify("stranger", "-verify_hostname", "localhost")
        self.assertFalse(good)
        self.assertIn("ostname mismatch", text)

    def test_the_expired_one_is_expired(self):
        good, text = self.verify("expired")
        self.assertFalse(good)
        self.assertIn("expired", text)

    def test_the_packed_forms_hold_the_key(self):
        done = subprocess.run(["openssl", "pkcs12", "-in", "server.p12", "-nodes", "-passin", "file:password"],
                              cwd=self.folder, stdout=subprocess.PIPE, check=True)
        self.assertIn(b"PRIVATE KEY", done.stdout)
        text = (self.folder / "client-all.pem").read_text(encoding="utf-8")
        self.assertIn("PRIVATE KEY", text)
        self.assertIn("BEGIN CERTIFICATE", text)

    def test_a_second_call_finds_what_the_first_made(self):
        before = (self.folder / "ca.pem").read_bytes()
        certificates.make(self.folder)
        self.assertEqual((self.folder / "ca.pem").read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
