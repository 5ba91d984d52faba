// A real server that requires TLS: neither plain nor replication connections talk to a server that
// does not prove its identity.
#include "postgres/doctor/checks.h"
#include "postgres/stream/replication.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

class PostgresTls : public testing::Test {
 protected:
  // The server's settings plus these; a later one counts.
  std::string with(const std::string& more) const { return server_.conninfo + " " + more; }
  std::string authority(const std::string& name) const {
    const std::string own = server_.field("sslrootcert");
    return "sslrootcert=" + own.substr(0, own.rfind('/')) + "/" + name;
  }
  // Both kinds of connection fail, and both errors say why and what to check.
  static void fails_closed(const std::string& conninfo, std::string_view why) {
    const Result<Connection> plain = Connection::open(conninfo);
    EXPECT_TRUE(failed_with(plain, Errc::unavailable)) << text_of(plain);
    EXPECT_TRUE(contains(text_of(plain), why)) << text_of(plain);
    EXPECT_TRUE(contains(text_of(plain), "sslrootcert")) << text_of(plain);
    const Result<Replication> log = Replication::open(conninfo);
    EXPECT_TRUE(failed_with(log, Errc::unavailable)) << text_of(log);
    EXPECT_TRUE(contains(text_of(log), why)) << text_of(log);
  }

  const servers::Server server_ = servers::find("postgres_tls");
};

TEST_F(PostgresTls, AServerThatProvesItsNameIsTalkedTo) {
  Result<Connection> plain = Connection::open(server_.conninfo);
  ASSERT_TRUE(plain) << text_of(plain);
  const Result<Replication> log = Replication::open(server_.conninfo);
  ASSERT_TRUE(log) << text_of(log);
  const Result<Rows> encrypted = plain->query(
      "SELECT bool_and(ssl), count(*) FROM pg_stat_ssl WHERE pid IN (pg_backend_pid(), $1)",
      Params().int4(log->backend_pid()));
  ASSERT_TRUE(encrypted) << text_of(encrypted);
  EXPECT_TRUE(encrypted->boolean(0, 0));
  EXPECT_EQ(encrypted->int8(0, 1), 2);
}

TEST_F(PostgresTls, ACertificateOfAnotherAuthorityIsRefused) {
  fails_closed(with(authority("other-ca.pem")), "certificate verify failed");
}

TEST_F(PostgresTls, ACertificateOfAnotherNameIsRefused) {
  fails_closed(with("host=stranger.example"), "does not match host name \"stranger.example\"");
}

TEST_F(PostgresTls, AMissingAuthorityIsNoReasonToTrustAnybody) {
  fails_closed(with(authority("no-such.pem")), "does not exist");
}

TEST_F(PostgresTls, AServerThatWantsTlsIsNotTalkedToWithoutIt) {
  fails_closed(with("sslmode=disable"), "no encryption");
}

class PostgresTransport : public testing::Test {
 protected:
  static std::string found(const Transport& transport) {
    Findings findings;
    examine_transport(transport, "url", findings);
    const std::vector<Finding> all = findings.take();
    if (all.empty()) return "";
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].code, "tls");
    EXPECT_EQ(all[0].severity, Severity::warning);
    EXPECT_TRUE(contains(all[0].what_to_do, "sslmode=verify-full")) << all[0].what_to_do;
    return all[0].what;
  }
};

TEST_F(PostgresTransport, OfARealConnectionIsKnown) {
  Result<Connection> connection = Connection::open(servers::find("postgres_tls").conninfo);
  ASSERT_TRUE(connection) << text_of(connection);
  const Transport seen = transport_of(*connection);
  EXPECT_EQ(seen.host, "localhost");
  EXPECT_EQ(seen.address, "127.0.0.1");
  EXPECT_EQ(seen.sslmode, "verify-full");
  EXPECT_TRUE(seen.is_encrypted);
}

TEST_F(PostgresTransport, ThatStaysOnTheMachineNeedsNoTls) {
  for (const Transport& local :
       {Transport{"/run/postgresql", "", "prefer"}, Transport{"@socket", "", "prefer"},
        Transport{"localhost", "127.0.0.1", "prefer"}, Transport{"db", "::1", "disable"},
        Transport{"127.9.9.9", "", "prefer"}, Transport{"db", "::ffff:127.0.0.1", "prefer"}})
    EXPECT_EQ(found(local), "") << local.host << " " << local.address;
}

TEST_F(PostgresTransport, ThatLeavesTheMachineProvesTheServer) {
  EXPECT_EQ(found({"db.example", "192.0.2.7", "verify-full", true}), "");
  for (const std::string weak : {"prefer", "require", "verify-ca"})
    EXPECT_TRUE(contains(found({"db.example", "192.0.2.7", weak, true}), "does not verify"))
        << weak;
  for (const std::string weak : {"disable", "allow", "prefer"})
    EXPECT_TRUE(contains(found({"db.example", "192.0.2.7", weak, false}), "is not encrypted"));
  EXPECT_NE(found({"localhost", "192.0.2.7", "prefer", false}), "") << "a name says nothing";
  EXPECT_NE(found({"db.example", "2001:db8::1", "prefer", false}), "");
}

}  // namespace
}  // namespace dovetail::postgres
