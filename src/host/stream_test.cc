#include "host/stream.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

namespace dovetail::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A key and its certificate, signed by `issuer` or by itself.
struct Identity {
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;

  Identity(const std::string& name, const std::string& alternative, const Identity* issuer) {
    key = EVP_EC_gen("P-256");
    certificate = X509_new();
    X509_set_version(certificate, 2);
    static std::atomic<long> serial{1};
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial.fetch_add(1));
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509* const from = issuer == nullptr ? certificate : issuer->certificate;
    X509_set_issuer_name(certificate, X509_get_subject_name(from));
    extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (!alternative.empty()) extend(NID_subject_alt_name, alternative);
    X509_sign(certificate, issuer == nullptr ? key : issuer->key, EVP_sha256());
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  ~Identity() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  void extend(int kind, const std::string& value) const {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    ASSERT_NE(extension, nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  std::string write(const std::string& path, bool with_key = false) const {
    FILE* file = std::fopen(path.c_str(), "w");
    EXPECT_NE(file, nullptr);
    if (with_key)
      PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    else
      PEM_write_X509(file, certificate);
    std::fclose(file);
    return path;
  }
};

// Takes one connection and hands its socket to `serve`, in a thread of its own.
class Server {
 public:
  explicit Server(std::function<void(int)> serve) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this, serve = std::move(serve)] {
      // Blocked only here: the test checks that the stream raises none.
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
      const int peer = accept(listener_, nullptr, nullptr);
      if (peer < 0) return;
      serve(peer);
      ::close(peer);
    });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Endpoint endpoint(const std::string& host = "127.0.0.1") const { return {host, port_}; }

 private:
  int listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

// Sends back what it gets until the other side closes.
void echo(int peer) {
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = recv(peer, bytes.data(), bytes.size(), 0)) > 0;)
    for (ssize_t sent = 0; sent < got;)
      sent += send(peer, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
}

void wait_for_close(int peer) {
  std::array<char, 4096> bytes{};
  while (recv(peer, bytes.data(), bytes.size(), 0) > 0) {
  }
}

std::string read_exactly(Stream& stream, std::size_t count) {
  std::string all;
  std::array<char, 1000> bytes{};
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (all.size() < count && std::chrono::steady_clock::now() < end) {
    const auto got = stream.read_within(bytes, seconds(1));
    if (!got) return all + "|" + got.error().text;
    all.append(bytes.data(), *got);
  }
  return all;
}

TEST(Stream, WhatIsWrittenArrivesAndAnswersComeBack) {
  const Server server(echo);
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream) << stream.error().text;
  ASSERT_TRUE(stream->write_all("hello", seconds(10)));
  EXPECT_EQ(read_exactly(*stream, 5), "hello");
}

TEST(Stream, OnlyThisMachineIsLoopback) {
  for (const char* host :
       {"localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "0.0.0.0", "10.0.0.1", "::", "[::2]", "::ffff:10.0.0.1",
                           "localhost.example.com", "127.0.0.1.example.com", "example.com"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Stream, NobodyThereIsUnavailable) {
  Endpoint gone;
  {
    const Server server(wait_for_close);
    gone = server.endpoint();
    Stream::connect(gone, seconds(10));
  }
  const auto stream = Stream::connect(gone, seconds(10));
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, Errc::unavailable);
  EXPECT_NE(stream.error().text.find("check the address"), std::string::npos);
}

TEST(Stream, AnUnknownNameIsUnavailable) {
  const auto stream = Stream::connect({"no-such-host.invalid", 4222}, seconds(5));
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, Errc::unavailable);
}

TEST(Stream, AReadEndsAtItsTimeLimit) {
  const Server server(wait_for_close);
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  std::array<char, 10> bytes{};
  const auto start = std::chrono::steady_clock::now();
  const auto got = stream->read_within(bytes, milliseconds(20));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, 0U);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(19));
}

TEST(Stream, AWakeUpEndsAWaitThatIsGoingOnOrTheNext) {
  const Server server(wait_for_close);
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  const auto start = std::chrono::steady_clock::now();
  stream->wake();
  ASSERT_TRUE(stream->wait(false, seconds(60)));
  std::jthread waker([&stream] {
    std::this_thread::sleep_for(milliseconds(20));
    stream->wake();
  });
  ASSERT_TRUE(stream->wait(false, seconds(60)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
}

TEST(Stream, ACloseOfTheServerIsUnavailableAndEndsTheConnection) {
  const Server server([](int) {});
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  std::array<char, 10> bytes{};
  const auto got = stream->read_within(bytes, seconds(30));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::unavailable);
  EXPECT_FALSE(stream->is_open());
}

TEST(Stream, WritingToAServerThatReadsNothingEndsAtItsTimeLimit) {
  std::atomic<bool> done{false};
  const Server server([&done](int) {
    while (!done) std::this_thread::sleep_for(milliseconds(5));
  });
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  const Status written = stream->write_all(std::string(64 << 20, 'x'), milliseconds(50));
  done = true;
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::unavailable);
}

class StreamTls : public testing::Test {
 protected:
  // Speaks TLS as `identity` and sends back what it gets.
  static void serve(int peer, const Identity& identity, const Identity* clients = nullptr) {
    SSL_CTX* context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context, identity.certificate);
    SSL_CTX_use_PrivateKey(context, identity.key);
    if (clients != nullptr) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context), clients->certificate);
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    SSL* session = SSL_new(context);
    SSL_set_fd(session, peer);
    if (SSL_accept(session) == 1) {
      std::array<char, 4096> bytes{};
      for (int got = 0; (got = SSL_read(session, bytes.data(), bytes.size())) > 0;)
        SSL_write(session, bytes.data(), got);
    }
    SSL_free(session);
    SSL_CTX_free(context);
  }
  // The result of start_tls with a server that is `identity`.
  Status start(const Identity& identity, const TlsOptions& options,
               const std::string& host = "127.0.0.1") {
    const Server server([&identity](int peer) { serve(peer, identity); });
    auto stream = Stream::connect(server.endpoint(host), seconds(10));
    if (!stream) return fail(stream.error());
    return stream->start_tls(options, seconds(20));
  }
  static void expect_refused(const Status& status, const std::string& why) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::unavailable);
    EXPECT_NE(status.error().text.find(why), std::string::npos) << status.error().text;
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("stream_test_" + std::to_string(getpid()));
  bool made_ = std::filesystem::create_directories(folder_);
  Identity authority_{"test authority", "", nullptr};
  Identity stranger_{"another authority", "", nullptr};
  Identity server_{"server", "IP:127.0.0.1,DNS:localhost", &authority_};
  Identity elsewhere_{"elsewhere", "DNS:elsewhere.example", &authority_};
  std::string ca_file_ = authority_.write(folder_ / "ca.pem");
  std::string wrong_ca_file_ = stranger_.write(folder_ / "wrong.pem");

  void TearDown() override { std::filesystem::remove_all(folder_); }
};

TEST_F(StreamTls, BytesGoBothWaysWhenTheServerIsTheRightOne) {
  const Server server([this](int peer) { serve(peer, server_); });
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  const Status started = stream->start_tls({ca_file_}, seconds(20));
  ASSERT_TRUE(started) << started.error().text;
  EXPECT_TRUE(stream->is_encrypted());
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += std::to_string(i) + ",";
  ASSERT_TRUE(stream->write_all(long_text, seconds(20)));
  EXPECT_EQ(read_exactly(*stream, long_text.size()), long_text);
}

TEST_F(StreamTls, ANameIsCheckedAsWellAsAnAddress) {
  const Status started = start(server_, {ca_file_}, "localhost");
  EXPECT_TRUE(started) << started.error().text;
}

TEST_F(StreamTls, AnAuthorityThatIsNotTrustedIsRefused) {
  expect_refused(start(server_, {wrong_ca_file_}), "check ca_file");
}

TEST_F(StreamTls, WithoutAFileTheSystemDecidesAndDoesNotTrustUs) {
  expect_refused(start(server_, {}), "check ca_file");
}

TEST_F(StreamTls, ACertificateForAnotherNameIsRefused) {
  expect_refused(start(elsewhere_, {ca_file_}), "mismatch");
  expect_refused(start(elsewhere_, {ca_file_}, "localhost"), "mismatch");
}

TEST_F(StreamTls, TheExpectedNameCanBeToldApartFromTheAddress) {
  TlsOptions options{ca_file_};
  options.server_name = "elsewhere.example";
  const Status started = start(elsewhere_, options);
  EXPECT_TRUE(started) << started.error().text;
}

TEST_F(StreamTls, FilesThatCannotBeUsedAreRejected) {
  for (const TlsOptions& options :
       {TlsOptions{folder_ / "missing.pem"}, TlsOptions{ca_file_, ca_file_, ""},
        TlsOptions{ca_file_, ca_file_, folder_ / "missing.pem"}}) {
    const Status started = start(server_, options);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Errc::rejected) << started.error().text;
  }
}

TEST_F(StreamTls, TheClientShowsItsOwnCertificate) {
  const Identity client("client", "", &authority_);
  const TlsOptions options{ca_file_, client.write(folder_ / "client.pem"),
                           client.write(folder_ / "client.key", true)};
  const Server server([this](int peer) { serve(peer, server_, &authority_); });
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  ASSERT_TRUE(stream->start_tls(options, seconds(20)));
  ASSERT_TRUE(stream->write_all("hello", seconds(20)));
  EXPECT_EQ(read_exactly(*stream, 5), "hello");
}

TEST_F(StreamTls, AServerThatDoesNotSpeakTlsIsRefused) {
  const Server server([](int peer) {
    (void)send(peer, "INFO {}\r\n", 9, MSG_NOSIGNAL);
    wait_for_close(peer);
  });
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  expect_refused(stream->start_tls({ca_file_}, seconds(20)), "speaks TLS");
}

TEST_F(StreamTls, AServerThatSaysNothingIsGivenUpAtTheTimeLimit) {
  const Server server(wait_for_close);
  auto stream = Stream::connect(server.endpoint(), seconds(10));
  ASSERT_TRUE(stream);
  expect_refused(stream->start_tls({ca_file_}, milliseconds(50)), "time limit");
}

}  // namespace
}  // namespace dovetail::net
