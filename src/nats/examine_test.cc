#include "nats/examine.h"

#include <gtest/gtest.h>

#include <set>

#include "nats/test_server.h"

namespace dovetail::nats {
namespace {

using std::chrono::hours;

class NatsExamine : public testing::Test {
 protected:
  void TearDown() override { admin_.drop_stream(name_); }

  // Codes of the findings, except those about the server itself.
  std::set<std::string> codes(const Examined& what) {
    const Result<std::vector<Finding>> findings = examine(what);
    EXPECT_TRUE(findings) << (findings ? "" : findings.error().text);
    std::set<std::string> found;
    if (!findings) return found;
    for (const Finding& finding : *findings) {
      EXPECT_FALSE(finding.what.empty() || finding.what_to_do.empty()) << finding.code;
      if (finding.code != "nats-server-old") found.insert(finding.code);
    }
    return found;
  }
  Examined stream() const {
    Examined what;
    what.connection = connection_to();
    what.stream = name_;
    return what;
  }

  Operator admin_;
  std::string name_ = own_name("EXAMINE");
};

TEST_F(NatsExamine, AnOldServerIsNamed) {
  Examined what;
  what.connection = connection_to();
  const auto findings = examine(what);
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->size(), 1U);
  EXPECT_EQ(findings->at(0).code, "nats-server-old") << "Debian's server is older than 2.11";
}

TEST_F(NatsExamine, AStreamThatLosesMessagesIsNamedForEachReason) {
  admin_.ask("STREAM.CREATE." + name_,
             "{\"name\":\"" + name_ + "\",\"subjects\":[\"" + name_ +
                 ".>\"],\"storage\":\"memory\",\"max_msgs\":5,\"max_age\":60000000000,"
                 "\"duplicate_window\":1000000000,\"no_ack\":true,\"max_msg_size\":100}");
  Examined what = stream();
  what.inbox_retention = hours(1);
  what.payload_bytes_max = 2 << 20;
  EXPECT_EQ(codes(what),
            (std::set<std::string>{"nats-discard-old", "nats-duplicate-window", "nats-max-age",
                                   "nats-max-msg-size", "nats-max-payload", "nats-memory-storage",
                                   "nats-no-ack", "nats-replicas"}));
}

TEST_F(NatsExamine, AServerThatIsNotChangedTakesWhateverAnOutboxAccepts) {
  Examined what;
  what.connection = connection_to();
  what.payload_bytes_max = EventLimits{}.payload_bytes_max;
  EXPECT_FALSE(codes(what).contains("nats-max-payload"));
  what.payload_bytes_max += 2048;
  EXPECT_TRUE(codes(what).contains("nats-max-payload"));
}

TEST_F(NatsExamine, ACarefulStreamHasNothingButItsOneCopy) {
  admin_.make_stream(name_, name_ + ".>",
                     ",\"discard\":\"new\",\"max_msgs\":1000,\"max_age\":3600000000000,"
                     "\"duplicate_window\":600000000000");
  Examined what = stream();
  what.inbox_retention = hours(1);
  what.payload_bytes_max = 1000;
  // The age is reported as a note: unread messages are lost with it.
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-max-age", "nats-replicas"}));
}

TEST_F(NatsExamine, AnInboxThatForgetsBeforeTheStreamDoesIsNamed) {
  admin_.make_stream(name_, name_ + ".>", ",\"duplicate_window\":600000000000");
  Examined what = stream();
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-replicas"}));
  what.inbox_retention = hours(1);
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-inbox-forgets", "nats-replicas"}));
}

TEST_F(NatsExamine, AStreamSaysForHowLongItKeepsWhatCanComeAgain) {
  const auto kept = [&](const std::string& settings) {
    admin_.make_stream(name_, name_ + ".>", settings);
    const auto found = retention(stream());
    EXPECT_TRUE(found && found->size() == 1);
    admin_.ask("STREAM.DELETE." + name_);
    return found && !found->empty() ? found->front() : Kept{};
  };
  EXPECT_FALSE(kept("").age);
  const Kept hour = kept(",\"max_age\":3600000000000");
  EXPECT_EQ(hour.what, "stream " + name_);
  EXPECT_EQ(hour.age, hours(1));
  EXPECT_TRUE(hour.comes_again);
  EXPECT_FALSE(kept(",\"retention\":\"workqueue\"").comes_again);
}

TEST_F(NatsExamine, ALimitOfASubjectThatDropsUnreadMessagesIsNamed) {
  admin_.make_stream(name_, name_ + ".>",
                     ",\"max_msgs_per_subject\":1,\"duplicate_window\":600000000000");
  EXPECT_TRUE(codes(stream()).contains("nats-discard-old"));
}

// The server counts a message without the bytes around it before it stores it, and with them
// afterwards.
TEST_F(NatsExamine, ALimitInBytesIsNamedWhereTheServerMissesIt) {
  admin_.make_stream(name_, name_ + ".>", R"(,"discard":"new","max_bytes":100000)");
  EXPECT_TRUE(codes(stream()).contains("nats-bytes-limit"));
  admin_.drop_stream(name_);
  admin_.make_stream(name_, name_ + ".>", R"(,"discard":"new","max_msgs":100000)");
  EXPECT_FALSE(codes(stream()).contains("nats-bytes-limit"));
}

TEST_F(NatsExamine, SubjectsWithoutAStreamAreNamed) {
  admin_.make_stream(name_, name_ + ".>", ",\"duplicate_window\":600000000000");
  Examined what = stream();
  what.stream.clear();
  what.subjects = {name_ + ".*.events", name_ + "nowhere"};
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-no-stream", "nats-replicas"}));
  what.subjects.clear();
  what.stream = name_ + "missing";
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-no-stream"}));
}

TEST_F(NatsExamine, AConsumerThatWouldLoseMessagesIsNamed) {
  admin_.make_stream(name_, name_ + ".>", ",\"duplicate_window\":600000000000");
  Examined what = stream();
  what.durable = "reader";
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-replicas"})) << "it is not there yet";
  admin_.ask("CONSUMER.DURABLE.CREATE." + name_ + ".reader",
             "{\"stream_name\":\"" + name_ +
                 "\",\"config\":{\"durable_name\":\"reader\",\"ack_policy\":\"all\","
                 "\"max_deliver\":3,\"ack_wait\":1000000000}}");
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-ack-wait", "nats-consumer-kind",
                                                "nats-max-deliver", "nats-replicas"}));
}

TEST_F(NatsExamine, CoreNatsIsLabelled) {
  Examined what;
  what.connection = connection_to();
  what.jetstream = false;
  EXPECT_EQ(codes(what), (std::set<std::string>{"nats-fire-and-forget"}));
}

TEST_F(NatsExamine, AServerThatIsNotThereIsUnavailable) {
  Examined what;
  what.connection.servers = {{"127.0.0.1", 1}};
  const auto findings = examine(what);
  ASSERT_FALSE(findings);
  EXPECT_EQ(findings.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace dovetail::nats
