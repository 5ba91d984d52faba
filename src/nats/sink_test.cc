#include "nats/sink.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <thread>

#include "core/event/batch.h"
#include "host/host.h"
#include "kit/events.h"
#include "nats/test_server.h"
#include "servers/tcp_proxy.h"

namespace dovetail::nats {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Fates = std::vector<Fate>;

class NatsSinkTest : public testing::Test {
 protected:
  void open(Options options) {
    sink_ = std::make_unique<NatsSink>(std::move(options), system_clock());
    const Status opened = sink_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }
  static Options options_for(const std::string& user = {}) {
    Options options{{connection_to()}};
    if (!user.empty()) {
      options.user = user;
      options.password = user + "-secret";
    }
    return options;
  }
  // Without a key it gets its own.
  const Event* event(const std::string& topic, std::string_view payload = "x",
                     std::string_view key = {}, std::string_view headers = {}) {
    const std::string own = "k" + std::to_string(++made_);
    return &events_.make(topic, key.empty() ? own : key, payload, headers);
  }
  // Until all outcomes are known, or an error comes.
  std::vector<Outcome> send(const std::vector<const Event*>& events) {
    const Status submitted = sink_->submit(events);
    EXPECT_TRUE(submitted) << (submitted ? "" : submitted.error().text);
    return collect(events.size());
  }
  std::vector<Outcome> collect(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    const TimePoint end = system_clock().now() + seconds(30);
    while (system_clock().now() < end) {
      const Result<bool> known = sink_->collect(outcomes, milliseconds(100));
      if (!known) {
        error_ = known.error();
        return {};
      }
      if (*known) return outcomes;
    }
    ADD_FAILURE() << "no outcome within the limit";
    return {};
  }
  Outcome send_one(const Event* one) {
    const auto outcomes = send({one});
    return outcomes.empty() ? Outcome{Fate::again, 0, "error: " + error_.text} : outcomes[0];
  }
  static Fates fates_of(const std::vector<Outcome>& outcomes) {
    Fates fates;
    for (const Outcome& outcome : outcomes) fates.push_back(outcome.fate);
    return fates;
  }
  static bool says(const Outcome& outcome, const std::string& what) {
    return outcome.reason.find(what) != std::string::npos;
  }
  void TearDown() override {
    if (made_stream_) admin_.drop_stream(name_);
  }
  void make_stream(const std::string& more = {}) {
    admin_.make_stream(name_, name_ + ".>", more);
    made_stream_ = true;
  }

  Operator admin_;
  std::string name_ = own_name("SINK");
  bool made_stream_ = false;
  std::unique_ptr<NatsSink> sink_;
  int made_ = 0;
  TestEvents events_;
  Error error_{Errc::stopped, ""};
};

TEST_F(NatsSinkTest, WhatTheStreamHasStoredIsConfirmedAndASecondCopyIsADuplicate) {
  make_stream();
  open(options_for());
  const Event* one = event(name_ + ".a", "1");
  const std::vector<Outcome> outcomes = send({one, event(name_ + ".b", "2")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::confirmed}));
  EXPECT_EQ(outcomes[0].place.offset, 1) << "the number in the stream";
  EXPECT_EQ(outcomes[1].place.offset, 2);
  const Outcome repeat = send_one(one);
  EXPECT_EQ(repeat.fate, Fate::duplicate);
  EXPECT_EQ(repeat.place.offset, 1);
  EXPECT_EQ(admin_.messages(name_), 2);
}

TEST_F(NatsSinkTest, AReplayIsStoredInsideTheDuplicateWindowAndItsRepeatsAreDuplicates) {
  make_stream();
  open(options_for());
  const Event* const first = event(name_ + ".a", "1");
  ASSERT_EQ(send_one(first).fate, Fate::confirmed);
  Event& replayed = events_.add(*first);
  replayed.replays = 1;
  EXPECT_EQ(send_one(&replayed).fate, Fate::confirmed);
  EXPECT_EQ(send_one(&replayed).fate, Fate::duplicate) << "it is the same replay, tried again";
  EXPECT_EQ(send_one(first).fate, Fate::duplicate);
  replayed.replays = 2;
  EXPECT_EQ(send_one(&replayed).fate, Fate::confirmed);
  EXPECT_EQ(admin_.messages(name_), 3);
}

TEST_F(NatsSinkTest, ASubjectThatNoStreamTakesIsBusyUntilOneDoes) {
  make_stream();
  open(options_for());
  const auto outcomes =
      send({event(name_ + ".a"), event(name_ + "nowhere.x"), event(name_ + ".b")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::busy, Fate::confirmed}));
  EXPECT_TRUE(says(outcomes[1], "no stream stores the subject " + name_ + "nowhere.x"))
      << outcomes[1].reason;
  admin_.make_stream(name_ + "LATE", name_ + "nowhere.>");
  EXPECT_EQ(send_one(event(name_ + "nowhere.x")).fate, Fate::confirmed) << "on the same connection";
  admin_.drop_stream(name_ + "LATE");
}

TEST_F(NatsSinkTest, ASubjectWithAListenerButNoStreamIsBusyToo) {
  admin_.connection().subscribe(name_ + ".>", 7);
  ASSERT_TRUE(admin_.connection().pump(milliseconds(50), [](const Frame&) {}));
  Options options = options_for();
  options.probe_after = milliseconds(50);
  open(options);
  const Outcome outcome = send_one(event(name_ + ".a"));
  EXPECT_EQ(outcome.fate, Fate::busy);
  EXPECT_TRUE(says(outcome, "no stream stores the subject")) << outcome.reason;
}

TEST_F(NatsSinkTest, AFullStreamIsBusyUntilThereIsRoom) {
  struct Case {
    const char* limit;
    const char* says;
  };
  for (const Case& one : {Case{",\"max_msgs\":1", "maximum messages exceeded"},
                          Case{",\"max_bytes\":450", "maximum bytes exceeded"}}) {
    make_stream(std::string(",\"discard\":\"new\"") + one.limit);
    open(options_for());
    EXPECT_EQ(send_one(event(name_ + ".a")).fate, Fate::confirmed);
    const Event* waiting = event(name_ + ".a");
    const Outcome full = send_one(waiting);
    EXPECT_EQ(full.fate, Fate::busy) << "no attempt is counted";
    EXPECT_TRUE(says(full, one.says)) << full.reason;
    admin_.ask("STREAM.PURGE." + name_);
    EXPECT_EQ(send_one(waiting).fate, Fate::confirmed) << "there is room again";
    admin_.drop_stream(name_);
  }
}

// The small one would fit where the large one does not.
TEST_F(NatsSinkTest, WhatIsBehindARefusedEventOfItsKeyIsNotStored) {
  make_stream(R"(,"discard":"new","max_bytes":4000)");
  open(options_for());
  ASSERT_EQ(send_one(event(name_ + ".a", "first")).fate, Fate::confirmed);
  const auto outcomes =
      send({event(name_ + ".a", "before", "k"), event(name_ + ".a", std::string(8000, 'x'), "k"),
            event(name_ + ".a", "behind", "k"), event(name_ + ".a", "other", "another key")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::busy) << outcomes[1].reason;
  EXPECT_EQ(outcomes[2].fate, Fate::again) << outcomes[2].reason;
  EXPECT_EQ(admin_.messages(name_), outcomes[3].fate == Fate::confirmed ? 3 : 2);
}

TEST_F(NatsSinkTest, AnotherPublisherCostsNoEventAndNoOrder) {
  make_stream();
  open(options_for());
  std::atomic<bool> is_over = false;
  std::jthread other([&] {
    NatsSink sink(options_for(), system_clock());
    EXPECT_TRUE(sink.open());
    while (!is_over) {
      TestEvents events;
      const Event* const one = &events.make(name_ + ".a", "theirs", "theirs");
      EXPECT_TRUE(sink.submit({&one, 1}));
      Outcome outcome;
      EXPECT_TRUE(sink.collect({&outcome, 1}, seconds(30)));
    }
  });
  std::vector<const Event*> left;
  for (int i = 0; i < 300; ++i) left.push_back(event(name_ + ".a", std::to_string(i), "k"));
  for (int tries = 0; tries < 300 && !left.empty(); ++tries) {
    const auto outcomes = send(left);
    if (outcomes.size() != left.size()) break;
    std::vector<const Event*> again;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (outcomes[i].fate == Fate::again) again.push_back(left[i]);
    left = again;
  }
  is_over = true;
  other.join();
  EXPECT_TRUE(left.empty());
  std::vector<std::string> stored;
  for (const auto& message : admin_.stored(name_))
    if (message.payload != "theirs") stored.push_back(message.payload);
  ASSERT_EQ(stored.size(), 300U);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(stored[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(NatsSinkTest, AFullStreamDoesNotHoldUpAnother) {
  make_stream(",\"discard\":\"new\",\"max_msgs\":1");
  admin_.make_stream(name_ + "FREE", name_ + "free.>");
  open(options_for());
  const auto outcomes = send({event(name_ + ".a"), event(name_ + ".b"), event(name_ + "free.a")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::busy, Fate::confirmed}));
  EXPECT_EQ(fates_of(send({event(name_ + ".b"), event(name_ + "free.b")})),
            (Fates{Fate::busy, Fate::confirmed}));
  admin_.drop_stream(name_ + "FREE");
}

TEST_F(NatsSinkTest, ASubjectThatMayHoldNoMoreIsBusy) {
  make_stream(",\"discard\":\"new\",\"max_msgs_per_subject\":1,\"discard_new_per_subject\":true");
  open(options_for());
  const auto outcomes = send({event(name_ + ".a"), event(name_ + ".a"), event(name_ + ".b")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::busy, Fate::confirmed}));
  EXPECT_TRUE(says(outcomes[1], "max_msgs_per_subject")) << outcomes[1].reason;
}

TEST_F(NatsSinkTest, AnAccountWithoutRoomIsBusy) {
  ConnectionOptions connection = connection_to();
  connection.user = "tiny";
  connection.password = "tiny-secret";
  Operator admin(connection);
  admin.drop_stream("TINY");
  admin.make_stream("TINY", "tiny.>");
  open(options_for("tiny"));
  Outcome outcome{Fate::confirmed};
  for (int i = 0; i < 50 && outcome.fate == Fate::confirmed; ++i)
    outcome = send_one(event("tiny.a", std::string(1000, 'x')));
  EXPECT_EQ(outcome.fate, Fate::busy);
  EXPECT_TRUE(says(outcome, "resource limits exceeded for account")) << outcome.reason;
}

TEST_F(NatsSinkTest, AMessageTooLargeForTheStreamIsRejectedAndItsNeighboursAreNot) {
  make_stream(",\"max_msg_size\":1000");
  open(options_for());
  const auto outcomes =
      send({event(name_ + ".a"), event(name_ + ".a", std::string(1001, 'x')), event(name_ + ".a")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::rejected, Fate::confirmed}));
  EXPECT_TRUE(says(outcomes[1], "max_msg_size")) << outcomes[1].reason;
}

TEST_F(NatsSinkTest, AMessageTooLargeForTheServerIsRejectedBeforeItIsSent) {
  make_stream();
  open(options_for());
  const auto limit =
      static_cast<std::size_t>(std::stoul(servers::find("nats").field("max_payload")));
  const Outcome large = send_one(event(name_ + ".a", std::string(limit, 'x')));
  ASSERT_EQ(large.fate, Fate::rejected);
  // "the message has N bytes": shows how many of them are not payload.
  const std::size_t whole = std::stoul(large.reason.substr(std::string("the message has ").size()));
  const std::size_t headers = whole - limit;
  EXPECT_EQ(send_one(event(name_ + ".a", std::string(limit - headers - 1, 'x'))).fate,
            Fate::confirmed);
  EXPECT_EQ(send_one(event(name_ + ".a", std::string(limit - headers, 'x'))).fate, Fate::confirmed);
  EXPECT_EQ(send_one(event(name_ + ".a", std::string(limit - headers + 1, 'x'))).fate,
            Fate::rejected);
}

TEST_F(NatsSinkTest, AForbiddenSubjectIsBusyAloneAndNothingHangs) {
  make_stream();
  open(options_for("narrow"));
  const auto outcomes = send(
      {event(name_ + ".a"), event("forbidden.x"), event("forbidden.\"y\""), event(name_ + ".b")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::busy, Fate::busy, Fate::confirmed}));
  EXPECT_TRUE(says(outcomes[1], "check the user's permissions")) << outcomes[1].reason;
}

TEST_F(NatsSinkTest, AnAccountWithoutJetStreamIsUnavailableAndBlamesNoEvent) {
  open(options_for("bare"));
  EXPECT_TRUE(send({event("orders.x")}).empty());
  EXPECT_EQ(error_.code, Errc::unavailable);
  EXPECT_NE(error_.text.find("not enabled for this account"), std::string::npos) << error_.text;
}

TEST_F(NatsSinkTest, AnotherStreamThanTheExpectedOneIsBusy) {
  make_stream();
  Options options = options_for();
  options.stream = "ANOTHER";
  open(options);
  const Outcome outcome = send_one(event(name_ + ".a"));
  EXPECT_EQ(outcome.fate, Fate::busy);
  EXPECT_TRUE(says(outcome, "expected stream does not match")) << outcome.reason;
}

TEST_F(NatsSinkTest, ASealedStreamIsBusy) {
  make_stream();
  admin_.ask("STREAM.UPDATE." + name_, "{\"name\":\"" + name_ + "\",\"subjects\":[\"" + name_ +
                                           ".>\"],\"storage\":\"file\",\"sealed\":true}");
  open(options_for());
  const Outcome outcome = send_one(event(name_ + ".a"));
  EXPECT_EQ(outcome.fate, Fate::busy);
  EXPECT_TRUE(says(outcome, "sealed")) << outcome.reason;
}

TEST_F(NatsSinkTest, TopicsThatAreNoSubjectsAreRejected) {
  make_stream();
  open(options_for());
  for (const std::string& topic :
       {name_ + " .a", name_ + ".*", name_ + ".>", name_ + "..a", name_ + ".", std::string(),
        name_ + ".\r\nPUB x 0", name_ + "." + std::string(5000, 'x')}) {
    const auto outcomes = send({event(topic), event(name_ + ".fine")});
    EXPECT_EQ(fates_of(outcomes), (Fates{Fate::rejected, Fate::confirmed})) << topic;
    EXPECT_TRUE(says(outcomes[0], "topic")) << outcomes[0].reason;
  }
}

TEST_F(NatsSinkTest, HeadersThatNatsCannotCarryAreRejected) {
  make_stream(",\"allow_rollup_hdrs\":true");
  open(options_for());
  for (const char* headers :
       {R"({"Nats-Rollup":"all"})", R"({"a":"b\r\nc"})", R"({"a:b":"c"})", R"({"a":" b"})"}) {
    const Outcome outcome = send_one(event(name_ + ".a", "x", "k", headers));
    EXPECT_EQ(outcome.fate, Fate::rejected) << headers;
    EXPECT_FALSE(outcome.reason.empty());
  }
}

TEST_F(NatsSinkTest, TheKeyCanBeATokenOfTheSubject) {
  make_stream();
  Options options = options_for();
  options.key_in_subject = true;
  open(options);
  EXPECT_EQ(send_one(event(name_ + ".a", "x", "order 7.1")).fate, Fate::confirmed);
  const Answer answer =
      admin_.ask("STREAM.MSG.GET." + name_, "{\"last_by_subj\":\"" + name_ + ".a.order%207%2E1\"}");
  EXPECT_EQ(answer.json().get("message").get("seq").number_or(0), 1);
}

TEST_F(NatsSinkTest, CoreNatsConfirmsWhatTheServerHasReadAndAListenerGetsIt) {
  admin_.connection().subscribe(name_ + ".>", 7);
  ASSERT_TRUE(admin_.connection().pump(milliseconds(50), [](const Frame&) {}));
  Options options = options_for("narrow");
  options.jetstream = false;
  open(options);
  const auto outcomes =
      send({event(name_ + ".a", "1"), event("forbidden.x"), event(name_ + ".a", "2")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::busy, Fate::confirmed}));
  std::vector<std::string> heard;
  const TimePoint end = system_clock().now() + seconds(30);
  while (heard.size() < 2 && system_clock().now() < end)
    ASSERT_TRUE(admin_.connection().pump(
        milliseconds(100), [&](const Frame& frame) { heard.emplace_back(frame.payload); }));
  EXPECT_EQ(heard, (std::vector<std::string>{"1", "2"}));
}

TEST_F(NatsSinkTest, AConnectionThatEndsWithEventsInFlightIsUnavailable) {
  make_stream();
  servers::TcpProxy proxy(servers::find("nats").port());
  Options options = options_for();
  options.servers[0].port = static_cast<std::uint16_t>(proxy.port());
  open(options);
  proxy.stall();
  const std::vector<const Event*> events{event(name_ + ".a")};
  ASSERT_TRUE(sink_->submit(events));
  proxy.cut();
  EXPECT_TRUE(collect(1).empty());
  EXPECT_EQ(error_.code, Errc::unavailable);
  proxy.flow();
  ASSERT_TRUE(sink_->open());
  EXPECT_EQ(send_one(events[0]).fate, Fate::confirmed);
  EXPECT_EQ(admin_.messages(name_), 1);
}

TEST_F(NatsSinkTest, AConnectionThatEndedWhileNothingWasInFlightIsReplacedInSilence) {
  make_stream();
  servers::TcpProxy proxy(servers::find("nats").port());
  Options options = options_for();
  options.servers[0].port = static_cast<std::uint16_t>(proxy.port());
  open(options);
  EXPECT_EQ(send_one(event(name_ + ".a")).fate, Fate::confirmed);
  proxy.cut();
  EXPECT_EQ(send_one(event(name_ + ".a")).fate, Fate::confirmed);
}

// Says what no real server can be made to say: the same `answer` to every publish.
class FakeServer {
 public:
  explicit FakeServer(std::string answer, std::string greeting = kGreeting)
      : answer_(std::move(answer)),
        greeting_(std::move(greeting)),
        listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::uint16_t port() const { return port_; }
  bool was_answered() const { return answered_; }  // its ping

  static constexpr const char* kGreeting =
      "INFO {\"version\":\"2.9.0\",\"headers\":true,\"max_payload\":1000000}\r\n";

 private:
  void serve() {
    const int peer = accept(listener_, nullptr, nullptr);
    if (peer < 0) return;
    say(peer, greeting_);
    std::string bytes;
    std::array<char, 4096> some{};
    for (ssize_t got = 0; (got = recv(peer, some.data(), some.size(), 0)) > 0;) {
      bytes.append(some.data(), static_cast<std::size_t>(got));
      std::size_t end = 0;
      while ((end = bytes.find("\r\n")) != std::string::npos) {
        const std::string line = bytes.substr(0, end);
        bytes.erase(0, end + 2);
        if (line == "PING") say(peer, "PONG\r\nPING\r\n");
        if (line == "PONG") answered_ = true;
        if (!line.starts_with("HPUB ")) continue;
        const std::size_t reply = line.find(' ', 5) + 1;
        say(peer, "MSG " + line.substr(reply, line.find(' ', reply) - reply) + " 1 " +
                      std::to_string(answer_.size()) + "\r\n" + answer_ + "\r\n");
      }
    }
    close(peer);
  }
  static void say(int peer, const std::string& text) {
    (void)!send(peer, text.data(), text.size(), MSG_NOSIGNAL);
  }

  std::string answer_;
  std::string greeting_;
  std::atomic<bool> answered_{false};
  int listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

TEST_F(NatsSinkTest, AFakeServerThatCallsADuplicateWithoutASequenceIsNotBelieved) {
  for (const char* answer : {R"({"stream":"S","seq":0,"duplicate":true})", R"({"stream":"S"})",
                             R"({"seq":5})", "no JSON at all", ""}) {
    const FakeServer server(answer);
    Options options;
    options.servers = {{"127.0.0.1", server.port()}};
    open(options);
    const Outcome outcome = send_one(event("orders"));
    EXPECT_EQ(outcome.fate, Fate::again) << answer;
    EXPECT_FALSE(outcome.reason.empty());
    sink_.reset();
  }
}

TEST_F(NatsSinkTest, AFakeServerGetsAnAnswerToItsPing) {
  const FakeServer server(R"({"stream":"S","seq":1})");
  Options options;
  options.servers = {{"127.0.0.1", server.port()}};
  open(options);
  EXPECT_EQ(send_one(event("orders")).fate, Fate::confirmed);
  const TimePoint end = system_clock().now() + seconds(30);
  while (!server.was_answered() && system_clock().now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(server.was_answered());
  sink_.reset();
}

TEST_F(NatsSinkTest, AFakeServerThatSpeaksBeforeTlsIsThereIsNotBelieved) {
  const FakeServer server("", std::string("INFO {\"headers\":true,\"tls_required\":true}\r\n") +
                                  "MSG _INBOX.x 1 0\r\n\r\n");
  ConnectionOptions options;
  options.servers = {{"127.0.0.1", server.port()}};
  options.tls = true;
  const Result<Connection> opened = Connection::open(options);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text.find("before TLS"), std::string::npos) << opened.error().text;
}

}  // namespace
}  // namespace dovetail::nats
