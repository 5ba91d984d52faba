#include "console/tokens.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/event/sha256.h"
#include "core/handle.h"
#include "server/secret.h"

namespace dovetail::console {
namespace {

constexpr std::size_t kSecretMin = 24;
constexpr std::size_t kSecretMax = 256;
constexpr std::size_t kNameMax = 64;
constexpr std::size_t kFileBytesMax = 256 << 10;
constexpr auto kLookAtFileEvery = std::chrono::seconds(1);

bool is_word(std::string_view text, std::string_view more) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [more](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != std::string_view::npos;
  });
}

std::optional<Role> role_of(std::string_view text) {
  for (const Role role : {Role::viewer, Role::operator_, Role::admin})
    if (text == to_string(role)) return role;
  return std::nullopt;
}

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::string digest_of(std::string_view secret) { return Sha256().add(secret).finish(); }

std::string session_digest(std::string_view secret, std::string_view name, std::string_view end) {
  std::string text = "dovetail session\n";
  text.append(end).append("\n").append(name);
  return to_hex(http::keyed_digest(secret, text));
}

Error cannot_read(const std::filesystem::path& file) {
  return {Errc::unavailable, file.string() + ": cannot be read (" + std::strerror(errno) +
                                 "); check http.tokens_file and the rights of the file"};
}

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<std::vector<Token>> parse_tokens(std::string_view text, std::string_view file) {
  std::vector<Token> tokens;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto wrong = [&](std::string_view what) {
      return fail(Errc::rejected,
                  std::string(file) + ":" + std::to_string(number) + ": " + std::string(what));
    };
    const std::string_view role = next_word(line);
    if (role.empty() || role.starts_with('#')) continue;
    const std::string_view name = next_word(line);
    const std::string_view secret = next_word(line);
    if (!role_of(role) || secret.empty() || !next_word(line).empty())
      return wrong("a line is a role (viewer, operator or admin), a name and a token");
    if (name.size() > kNameMax || !is_word(name, "._@-"))
      return wrong("a name is made of at most 64 letters, digits, '.', '_', '@' and '-'");
    if (secret.size() < kSecretMin || secret.size() > kSecretMax || !is_word(secret, "-._~+/="))
      return wrong(
          "a token has 24 to 256 letters, digits and \"-._~+/=\"; \"openssl rand -hex 32\" makes "
          "one");
    if (std::any_of(tokens.begin(), tokens.end(),
                    [&](const Token& one) { return one.secret == secret; }))
      return wrong("this token is there twice; give each its own");
    tokens.push_back({*role_of(role), std::string(name), std::string(secret)});
  }
  if (tokens.empty())
    return fail(Errc::rejected, std::string(file) +
                                    ": there is no token in it; write a line with a role, a name "
                                    "and a token, or remove http.tokens_file");
  return tokens;
}

Result<std::vector<Token>> load_tokens(const std::filesystem::path& file) {
  const File opened(file);
  struct stat found{};
  if (opened.get() < 0 || ::fstat(opened.get(), &found) != 0) return fail(cannot_read(file));
  if (!S_ISREG(found.st_mode))
    return fail(Errc::rejected, file.string() + ": is not a file; check http.tokens_file");
  if ((found.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    return fail(Errc::rejected,
                file.string() +
                    ": other users may read it or its group may write it; run \"chmod 600\" on it");
  std::string text;
  std::array<char, 4096> bytes{};
  ssize_t got = 0;
  while ((got = ::read(opened.get(), bytes.data(), bytes.size())) > 0 &&
         text.size() <= kFileBytesMax)
    text.append(bytes.data(), static_cast<std::size_t>(got));
  if (got < 0) return fail(cannot_read(file));
  if (text.size() > kFileBytesMax)
    return fail(Errc::rejected, file.string() +
                                    ": is larger than 256 KiB; check that it is the "
                                    "file of http.tokens_file");
  return parse_tokens(text, file.string());
}

void Tokens::set(std::vector<Token> tokens) {
  std::vector<Known> all;
  for (Token& token : tokens) {
    std::string digest = digest_of(token.secret);
    all.push_back({std::move(token), std::move(digest)});
  }
  const std::lock_guard lock(mutex_);
  all_ = std::move(all);
}

// Digests have one length, so the time tells nothing about the secret.
std::optional<Identity> Tokens::find(std::string_view secret) const {
  const std::string digest = digest_of(secret);
  const std::lock_guard lock(mutex_);
  const Known* found = nullptr;
  for (const Known& one : all_)
    if (http::equal_in_constant_time(one.digest, digest)) found = &one;
  if (found == nullptr) return std::nullopt;
  return Identity{found->token.name, found->token.role, Identity::Proof::bearer};
}

std::optional<std::string> Tokens::open_session(std::string_view secret, WallTime now) const {
  const auto identity = find(secret);
  if (!identity) return std::nullopt;
  const auto end =
      std::chrono::floor<std::chrono::seconds>((now + kSessionHolds).time_since_epoch());
  const std::string until = std::to_string(end.count());
  return until + "." + session_digest(secret, identity->name, until) + "." + identity->name;
}

std::optional<Identity> Tokens::find_session(std::string_view session, WallTime now) const {
  const std::size_t dot = session.find('.');
  const std::size_t second = dot == std::string_view::npos ? dot : session.find('.', dot + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view until = session.substr(0, dot);
  const std::string_view digest = session.substr(dot + 1, second - dot - 1);
  const std::string_view name = session.substr(second + 1);
  std::int64_t end = 0;
  const auto [read, code] = std::from_chars(until.data(), until.data() + until.size(), end);
  const auto now_s = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  if (code != std::errc{} || read != until.data() + until.size() || end <= now_s)
    return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Known* found = nullptr;
  for (const Known& one : all_) {
    if (one.token.name != name) continue;
    if (http::equal_in_constant_time(session_digest(one.token.secret, name, until), digest))
      found = &one;
  }
  if (found == nullptr) return std::nullopt;
  return Identity{found->token.name, found->token.role, Identity::Proof::cookie};
}

TokensFile::TokensFile(std::filesystem::path file, Tokens& tokens)
    : file_(std::move(file)), tokens_(tokens) {}

Status TokensFile::load() {
  seen_ = state();
  auto tokens = load_tokens(file_);
  if (!tokens) return fail(tokens.error());
  tokens_.set(std::move(*tokens));
  return {};
}

Status TokensFile::follow(TimePoint now) {
  if (now < look_at_) return {};
  look_at_ = now + kLookAtFileEvery;
  if (state() == seen_) return {};
  return load();
}

std::string TokensFile::state() const {
  struct stat found{};
  if (::stat(file_.c_str(), &found) != 0) return "gone";
  return std::to_string(found.st_dev) + " " + std::to_string(found.st_ino) + " " +
         std::to_string(found.st_size) + " " + std::to_string(found.st_mode) + " " +
         std::to_string(found.st_mtim.tv_sec) + "." + std::to_string(found.st_mtim.tv_nsec) + " " +
         std::to_string(found.st_ctim.tv_sec) + "." + std::to_string(found.st_ctim.tv_nsec);
}

}  // namespace dovetail::console
