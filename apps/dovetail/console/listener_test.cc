// The listener over real sockets: who gets in, and what happens when a handler hangs.
#include "console/listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "console/health.h"
#include "console/test_client.h"
#include "host/errand.h"
#include "host/host.h"
#include "kit/eventually.h"

namespace dovetail::console {
namespace {

namespace fs = std::filesystem;
using Kind = Route::Kind;

const std::string kViewer(32, 'v');
const std::string kOperator(32, 'o');
const std::string kAdmin(32, 'a');
const std::string kJson = "Content-Type: application/json\r\n";

std::string bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }

// What a handler waits on until the test lets it go; it may outlive the test's objects.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  std::atomic<int> inside{0};

  void pass() {
    std::unique_lock lock(mutex);
    ++inside;
    changed.wait(lock, [this] { return is_open; });
  }
  void open() {
    const std::lock_guard lock(mutex);
    is_open = true;
    changed.notify_all();
  }
};

// A route for each role and kind; they say who asked. "/hangs" waits for the gate.
class ListenerTest : public testing::Test {
 protected:
  ListenerTest() { fs::create_directory(folder_); }
  ~ListenerTest() override {
    gate_->open();
    listener_.reset();
    EXPECT_TRUE(wait_for_errands(std::chrono::seconds(60)));
    fs::remove_all(folder_);
  }

  std::vector<Route> routes() {
    std::vector<Route> all = health_routes();
    const auto say_who = [this](const Request&, const Identity& who) {
      ++done_;
      return json_reply("\"" + who.name + "\"");
    };
    for (const Role role : {Role::viewer, Role::operator_, Role::admin}) {
      const std::string name(to_string(role));
      all.push_back({"GET", "/read/" + name, role, Kind::reads, say_who});
      all.push_back({"POST", "/change/" + name, role, Kind::changes, say_who});
    }
    const auto hang = [gate = gate_](const Request&, const Identity&) {
      gate->pass();
      return json_reply("\"late\"");
    };
    all.push_back({"GET", "/hangs", Role::viewer, Kind::reads, hang});
    all.push_back({"POST", "/hangs", Role::viewer, Kind::changes, hang});
    all.push_back(
        {"GET", "/throws", Role::viewer, Kind::reads,
         [](const Request&, const Identity&) -> Reply { throw std::runtime_error("the cause"); }});
    all.push_back({"GET", "/echo/{it}", Role::viewer, Kind::reads,
                   [](const Request& request, const Identity&) {
                     return json_reply("\"" + request.places.find("it")->second + " " +
                                       std::string(request.asked("q")) + " " + request.body + "\"");
                   }});
    return all;
  }

  void listen(ListenerOptions options, bool with_tokens) {
    options.http.endpoint.port = 0;
    if (with_tokens) {
      const fs::path file = folder_ / "tokens";
      std::ofstream(file) << "viewer vera " << kViewer << "\noperator otto " << kOperator
                          << "\nadmin ada " << kAdmin << "\n";
      chmod(file.c_str(), 0600);
      options.http.tokens_file = file;
    }
    options.refused = [this](const Refused& refused) {
      const std::lock_guard lock(mutex_);
      refused_.push_back(refused);
    };
    options.warn = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(text);
    };
    listener_ = std::make_unique<Listener>(std::move(options), routes(), system_clock());
    const Status started = listener_->start();
    ASSERT_TRUE(started) << started.error().text;
  }
  Heard ask(const std::string& method, const std::string& path, const std::string& headers = "",
            const std::string& body = "", const std::string& host = "127.0.0.1") const {
    return say(listener_->port(), request_text(method, path, headers, body, host));
  }

  fs::path folder_ = fs::temp_directory_path() / ("dovetail-listener-" + std::to_string(getpid()));
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::atomic<int> done_{0};
  std::mutex mutex_;
  std::vector<Refused> refused_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, ARoleReachesItsRoutesAndThoseOfLesserRolesOnly) {
  listen({}, true);
  const std::vector<std::pair<Role, std::string>> clients{
      {Role::nobody, ""},
      {Role::nobody, bearer(std::string(32, 'x'))},
      {Role::nobody, "Authorization: Basic " + kAdmin + "\r\n"},
      {Role::viewer, bearer(kViewer)},
      {Role::operator_, bearer(kOperator)},
      {Role::admin, bearer(kAdmin)}};
  for (const auto& [role, headers] : clients) {
    for (const Role needed : {Role::viewer, Role::operator_, Role::admin}) {
      SCOPED_TRACE(headers + std::string(to_string(needed)));
      const std::string name(to_string(needed));
      const int status = role >= needed ? 200 : role == Role::nobody ? 401 : 403;
      const int before = done_;
      EXPECT_EQ(ask("GET", "/read/" + name, headers).status, status);
      EXPECT_EQ(ask("HEAD", "/read/" + name, headers).status, status);
      EXPECT_EQ(ask("POST", "/change/" + name, headers + kJson, "{}").status, status);
      EXPECT_EQ(done_ - before, role >= needed ? 3 : 0);
      EXPECT_EQ(ask("GET", "/change/" + name, headers).status, 405) << "no change by GET";
    }
    EXPECT_EQ(ask("GET", "/livez", headers).status, 200);
  }
  const Heard refused = ask("GET", "/read/admin", bearer(kOperator));
  EXPECT_NE(refused.body.find("this needs the role admin, and otto has the role operator"),
            std::string::npos);
  EXPECT_EQ(ask("GET", "/read/admin").line("WWW-Authenticate"),
            "WWW-Authenticate: Bearer realm=\"dovetail\"");
  ASSERT_FALSE(refused_.empty());
  EXPECT_EQ(refused_.back().who, "anonymous");
}

TEST_F(ListenerTest, WithoutATokensFileEverybodyIsAViewer) {
  listen({}, false);
  EXPECT_EQ(ask("GET", "/read/viewer").body, "\"anonymous\"\n");
  EXPECT_EQ(ask("GET", "/read/operator").status, 401);
  EXPECT_EQ(ask("POST", "/change/operator", kJson, "{}").status, 401);
}

TEST_F(ListenerTest, AForeignHostReachesNothing) {
  ListenerOptions options;
  options.http.hosts = {"dash.example"};
  listen(std::move(options), true);
  for (const char* host : {"127.0.0.1", "127.0.0.1:99", "localhost", "LocalHost:7", "[::1]:8",
                           "dash.example", "Dash.Example.:443"})
    EXPECT_EQ(ask("GET", "/read/admin", bearer(kAdmin), "", host).status, 200) << host;
  for (const Route& route : listener_->routes().all()) {
    for (const char* host : {"evil.example", "dash.example.evil", "127.0.0.1.evil.example",
                             "localhost.evil", "10.0.0.1", "[::2]"}) {
      const Heard heard = ask(route.method, route.path, bearer(kAdmin) + kJson, "{}", host);
      EXPECT_EQ(heard.status, 421) << route.method << " " << route.path << " " << host;
    }
  }
  EXPECT_EQ(done_, 7);
}

TEST_F(ListenerTest, APageOfAnotherSiteReachesNothing) {
  listen({}, true);
  const std::string host = "127.0.0.1:" + std::to_string(listener_->port());
  for (const Route& route : listener_->routes().all()) {
    for (const char* foreign :
         {"Origin: http://evil.example\r\n", "Origin: null\r\n", "Origin: http://127.0.0.1:1\r\n",
          "Origin: http://localhost\r\n", "Sec-Fetch-Site: cross-site\r\n",
          "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors\r\n"}) {
      const Heard heard =
          ask(route.method, route.path, bearer(kAdmin) + kJson + foreign, "{}", host);
      EXPECT_EQ(heard.status, 403) << route.method << " " << route.path << " " << foreign;
      EXPECT_EQ(heard.line("Access-Control"), "");
    }
  }
  EXPECT_EQ(done_, 0);
  const std::string ours = "Origin: http://" + host + "\r\nSec-Fetch-Site: same-origin\r\n";
  EXPECT_EQ(ask("POST", "/change/admin", bearer(kAdmin) + kJson + ours, "{}", host).status, 200);
  EXPECT_EQ(ask("GET", "/read/viewer",
                bearer(kViewer) + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n")
                .status,
            200)
      << "a link in a mail may lead here";
}

TEST_F(ListenerTest, AChangeNeedsJsonWhichAFormCannotSend) {
  listen({}, true);
  for (const char* type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: text/plain; application/json\r\n"})
    EXPECT_EQ(ask("POST", "/change/viewer", bearer(kViewer) + type, "{}").status, 415) << type;
  EXPECT_EQ(ask("POST", "/change/viewer",
                bearer(kViewer) + "Content-Type: application/json ; charset=utf-8\r\n", "{}")
                .status,
            200);
}

TEST_F(ListenerTest, ABrowserSignsInAndOut) {
  listen({}, true);
  const std::string host = "127.0.0.1:" + std::to_string(listener_->port());
  const std::string origin = "Origin: http://" + host + "\r\n";
  const std::string path = "/api/v1/session";
  EXPECT_EQ(ask("POST", path, kJson + origin, "{\"token\": \"wrong\"}", host).status, 401);
  EXPECT_EQ(ask("POST", path, kJson + origin, "[]", host).status, 400);
  EXPECT_EQ(ask("POST", path, "", "{\"token\": \"" + kOperator + "\"}", host).status, 415);
  const Heard signed_in =
      ask("POST", path, kJson + origin, "{\"token\": \"" + kOperator + "\"}", host);
  ASSERT_EQ(signed_in.status, 200) << signed_in.body;
  EXPECT_EQ(signed_in.body, "{\"name\":\"otto\",\"role\":\"operator\"}\n");
  const std::string set = signed_in.line("Set-Cookie: ");
  for (const char* part : {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=86400"})
    EXPECT_NE(set.find(part), std::string::npos) << set;
  EXPECT_EQ(set.find(kOperator), std::string::npos) << "the token is not in it";
  const std::string cookie = "Cookie: a=b; " + set.substr(12, set.find(';') - 12) + "\r\n";
  EXPECT_EQ(ask("GET", path, cookie).body, "{\"name\":\"otto\",\"role\":\"operator\"}\n");
  EXPECT_EQ(ask("GET", "/read/operator", cookie).status, 200);
  EXPECT_EQ(ask("GET", "/read/admin", cookie).status, 403);
  EXPECT_EQ(ask("POST", "/change/operator", cookie + kJson + origin, "{}", host).status, 200);
  EXPECT_EQ(ask("POST", "/change/operator", cookie + kJson, "{}", host).status, 403)
      << "a browser says whose page a change is from";
  EXPECT_EQ(ask("GET", "/read/operator", "Cookie: x" + cookie.substr(13)).status, 401);
  const Heard out = ask("DELETE", path, cookie + kJson + origin, "", host);
  EXPECT_NE(out.line("Set-Cookie: ").find("=; "), std::string::npos) << out.head;
  EXPECT_NE(out.line("Set-Cookie: ").find("Max-Age=0"), std::string::npos) << out.head;
}

TEST_F(ListenerTest, EveryAnswerTellsBrowsersToTrustItWithLittle) {
  listen({}, true);
  for (const Heard& heard :
       {ask("GET", "/livez"), ask("GET", "/nothing"), ask("GET", "/read/admin"),
        ask("GET", "/read/admin", bearer(kAdmin)), ask("GET", "/throws", bearer(kAdmin)),
        ask("GET", "/livez", "", "", "evil")}) {
    EXPECT_NE(heard.line("Content-Security-Policy: ").find("default-src 'none'"),
              std::string::npos);
    EXPECT_EQ(heard.line("X-Content-Type-Options"), "X-Content-Type-Options: nosniff");
    EXPECT_EQ(heard.line("Referrer-Policy"), "Referrer-Policy: no-referrer");
    EXPECT_EQ(heard.line("Cache-Control"), "Cache-Control: no-store");
  }
}

TEST_F(ListenerTest, HandlersThatHangKeepOthersFromNothingThatDoesNotWait) {
  ListenerOptions options;
  options.workers = 2;
  options.queue_max = 2;
  options.patience = std::chrono::seconds(2);
  listen(std::move(options), false);
  std::vector<std::thread> clients;
  std::atomic<int> late{0};
  for (int i = 0; i < 2; ++i)
    clients.emplace_back([&, i] {
      const Heard heard = ask(i == 0 ? "GET" : "POST", "/hangs", kJson, "{}");
      late += heard.status == 504;
      if (i == 1) {
        EXPECT_NE(heard.body.find("is unknown"), std::string::npos) << heard.body;
      }
    });
  ASSERT_TRUE(eventually([&] { return gate_->inside == 2; }));
  std::atomic<int> busy{0};
  for (int i = 0; i < 6; ++i)  // two in the queue
    clients.emplace_back([&] {
      const int status = ask("GET", "/read/viewer").status;
      late += status == 504;
      busy += status == 503;
    });
  EXPECT_EQ(ask("GET", "/livez").status, 200);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(late, 4) << "each gets an answer although no handler returns";
  EXPECT_EQ(busy, 4) << "the queue is bounded";
  EXPECT_EQ(ask("GET", "/livez").status, 200);
  gate_->open();
  EXPECT_TRUE(eventually([&] { return ask("GET", "/read/viewer").status == 200; }));
}

TEST_F(ListenerTest, EndsWhileAHandlerHangs) {
  listen({}, false);
  Heard heard;
  std::thread client([&] { heard = ask("GET", "/hangs"); });
  ASSERT_TRUE(eventually([&] { return gate_->inside == 1; }));
  listener_.reset();
  client.join();
  EXPECT_EQ(heard.status, 503);
  EXPECT_NE(heard.body.find("stopping"), std::string::npos);
}

TEST_F(ListenerTest, AHandlerThatThrowsIsAnAnswerWithoutTheReason) {
  listen({}, false);
  const Heard heard = ask("GET", "/throws");
  EXPECT_EQ(heard.status, 500);
  EXPECT_EQ(heard.body.find("the cause"), std::string::npos);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("the cause"), std::string::npos);
}

TEST_F(ListenerTest, APathAndAQueryReachTheHandlerDecoded) {
  listen({}, false);
  EXPECT_EQ(ask("GET", "/echo/a%20b?q=c%26d&r=1").body, "\"a b c&d \"\n");
  EXPECT_EQ(ask("GET", "/echo/a?q=%").status, 400);
  EXPECT_EQ(ask("GET", "/echo/..").status, 400);
  EXPECT_EQ(ask("GET", "/echo/%2e%2e").status, 400);
}

TEST_F(ListenerTest, AddressesOfOthersNeedTlsAndTokens) {
  ListenerOptions options;
  options.http.endpoint.address = "0.0.0.0";
  options.http.endpoint.remote_hint = "set both";
  Listener listener(options, {}, system_clock());
  const Status started = listener.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::rejected);
  EXPECT_EQ(started.error().text, "set both");
}

}  // namespace
}  // namespace dovetail::console
