#include "console/tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace dovetail::console {
namespace {

namespace fs = std::filesystem;

const std::string kAlice(32, 'a');
const std::string kBob(24, 'b');
const WallTime kNow{std::chrono::hours(24 * 365 * 56)};

std::string wrong(const std::string& text) {
  const auto tokens = parse_tokens(text, "t");
  return tokens ? "accepted" : tokens.error().text;
}

TEST(Tokens, AreLinesOfRoleNameAndToken) {
  const auto tokens =
      parse_tokens("# who\n\nviewer grafana " + kBob + "\r\n  admin\talice@x " + kAlice, "t");
  ASSERT_TRUE(tokens) << tokens.error().text;
  ASSERT_EQ(tokens->size(), 2U);
  EXPECT_EQ((*tokens)[0].name, "grafana");
  EXPECT_EQ((*tokens)[1].role, Role::admin);
}

TEST(Tokens, AWrongLineIsNamedAndItsTokenIsNot) {
  for (const std::string& line :
       {"root alice " + kAlice, "nobody alice " + kAlice, "admin " + kAlice,
        "admin alice " + kAlice + " more", "admin a/b " + kAlice,
        std::string("admin alice secret-too-short"), "admin alice " + kAlice + "\"",
        "admin " + std::string(65, 'n') + " " + kAlice}) {
    const std::string error = wrong("# one\n" + line);
    EXPECT_TRUE(error.starts_with("t:2: ")) << line << ": " << error;
    EXPECT_EQ(error.find(kAlice), std::string::npos) << error;
    EXPECT_EQ(error.find("secret-too-short"), std::string::npos) << error;
  }
  EXPECT_NE(wrong("admin a " + kAlice + "\nviewer b " + kAlice).find("twice"), std::string::npos);
  EXPECT_NE(wrong("# none\n").find("no token"), std::string::npos);
}

class TokensFileTest : public testing::Test {
 protected:
  TokensFileTest() {
    fs::create_directory(folder_);
    write("viewer grafana " + kBob + "\n");
  }
  ~TokensFileTest() override { fs::remove_all(folder_); }
  void write(const std::string& text) {
    std::ofstream(file_) << text;
    chmod(file_.c_str(), 0600);
  }
  fs::path folder_ = fs::temp_directory_path() / ("dovetail-tokens-" + std::to_string(getpid()));
  fs::path file_ = folder_ / "tokens";
};

TEST_F(TokensFileTest, MustNotBeReadableByOthers) {
  EXPECT_TRUE(load_tokens(file_));
  for (const mode_t mode : {0604U, 0602U, 0620U, 0644U, 0666U}) {
    chmod(file_.c_str(), mode);
    const auto tokens = load_tokens(file_);
    ASSERT_FALSE(tokens) << std::oct << mode;
    EXPECT_EQ(tokens.error().code, Errc::rejected);
    EXPECT_NE(tokens.error().text.find("chmod 600"), std::string::npos);
  }
  chmod(file_.c_str(), 0640);
  EXPECT_TRUE(load_tokens(file_));
  EXPECT_FALSE(load_tokens(folder_));
  EXPECT_EQ(load_tokens(folder_ / "none").error().code, Errc::unavailable);
}

TEST_F(TokensFileTest, AChangeTakesEffectAndAWrongOneDoesNot) {
  Tokens tokens;
  TokensFile file(file_, tokens);
  ASSERT_TRUE(file.load());
  TimePoint now{std::chrono::hours(1)};
  const auto later = [&] { return file.follow(now += std::chrono::seconds(2)); };
  EXPECT_TRUE(tokens.find(kBob));
  EXPECT_TRUE(later());
  write("admin alice " + kAlice + "\n");
  EXPECT_TRUE(later());
  EXPECT_FALSE(tokens.find(kBob)) << "a token that was removed";
  EXPECT_TRUE(tokens.find(kAlice));
  write("admin alice\n");
  EXPECT_FALSE(later());
  EXPECT_TRUE(later()) << "an error is given once";
  EXPECT_TRUE(tokens.find(kAlice)) << "what was good before stays";
}

TEST(Tokens, OneIsFoundByItsWholeSecret) {
  Tokens tokens;
  tokens.set({{Role::viewer, "bob", kBob}, {Role::admin, "alice", kAlice}});
  EXPECT_EQ(tokens.find(kAlice)->role, Role::admin);
  EXPECT_EQ(tokens.find(kBob)->name, "bob");
  for (const std::string& other :
       {kBob + "b", kBob.substr(1), std::string(), std::string("bob"), std::string(32, 'A')})
    EXPECT_FALSE(tokens.find(other)) << other;
}

TEST(Tokens, ASessionStandsForItsTokenUntilItEnds) {
  Tokens tokens;
  tokens.set({{Role::viewer, "bob", kBob}, {Role::operator_, "alice.a", kAlice}});
  EXPECT_FALSE(tokens.open_session("wrong", kNow));
  const std::string session = *tokens.open_session(kAlice, kNow);
  EXPECT_EQ(session.find(kAlice), std::string::npos) << "a cookie does not hold the token";
  const auto identity = tokens.find_session(session, kNow);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->name, "alice.a");
  EXPECT_EQ(identity->role, Role::operator_);
  EXPECT_EQ(identity->proof, Identity::Proof::cookie);
  EXPECT_TRUE(tokens.find_session(session, kNow + std::chrono::hours(23)));
  EXPECT_FALSE(tokens.find_session(session, kNow + Tokens::kSessionHolds));
}

TEST(Tokens, ASessionThatWasChangedOrWhoseTokenIsGoneIsNone) {
  Tokens tokens;
  tokens.set({{Role::viewer, "bob", kBob}, {Role::admin, "alice", kAlice}});
  const std::string session = *tokens.open_session(kBob, kNow);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = session;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string end = session.substr(0, session.find('.'));
  const std::string longer = std::to_string(std::stoll(end) + 1000);
  for (const std::string& forged :
       {changed(".bob", ".alice"), changed(end, longer), changed(end, "+" + end), changed(end, ""),
        session.substr(0, session.rfind('.')), std::string("."), std::string(".."), std::string()})
    EXPECT_FALSE(tokens.find_session(forged, kNow)) << forged;
  tokens.set({{Role::viewer, "bob", std::string(24, 'c')}});
  EXPECT_FALSE(tokens.find_session(session, kNow)) << "his token is another one now";
}

}  // namespace
}  // namespace dovetail::console
