#include "host/owner.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "host/host.h"

namespace dovetail {

namespace {

std::string link_at(const std::string& path) {
  std::array<char, 256> text{};
  const ssize_t length = ::readlink(path.c_str(), text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

template <class Number>
bool parse(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Sighting look_for_process(std::int64_t pid) {
  // /proc can hide processes of other users; kill() cannot.
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return {Sighting::State::none, 0};
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  return sighting_in(line);
}

Sighting sighting_in(const std::string& stat) {
  // The program name is in brackets and may contain anything. After it come the fields from the
  // third on: state ... number of threads (20) ... start (22).
  const std::size_t name_ends = stat.rfind(')');
  if (name_ends == std::string::npos) return {};
  std::istringstream rest(stat.substr(name_ends + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(std::move(field));
  std::uint64_t started = 0;
  std::int64_t threads = 0;
  if (fields.size() < 20 || !parse(fields[17], threads) || !parse(fields[19], started)) return {};
  // The main thread looks dead once it has ended, even if other threads still run.
  const bool is_dead = (fields[0] == "Z" || fields[0] == "X") && threads <= 1;
  return {is_dead ? Sighting::State::dead : Sighting::State::alive, started};
}

std::optional<ProcessIdentity> own_identity() {
  const std::int64_t pid = ::getpid();
  // A different number means that /proc belongs to another namespace: all its ids are different.
  if (link_at("/proc/self") != std::to_string(pid)) return std::nullopt;
  const Sighting self = look_for_process(pid);
  const std::string pids = link_at("/proc/self/ns/pid");
  if (boot_id().empty() || pids.empty() || self.started == 0) return std::nullopt;
  // A time namespace shifts the start of every process; kernels before 5.6 have none.
  return ProcessIdentity{boot_id(), pids + link_at("/proc/self/ns/time"), pid, self.started};
}

std::string lease_owner(std::string_view label) {
  std::string owner(label);
  owner += "#" + new_event_id().to_string().substr(24);
  const auto self = own_identity();
  if (!self) return owner;
  return owner + "@" + std::to_string(self->pid) + "/" + std::to_string(self->started) + "/" +
         self->namespaces + "/" + self->boot;
}

std::string shown_owner(std::string_view owner) {
  return std::string(owner.substr(0, owner.rfind('@')));
}

std::optional<ProcessIdentity> identity_in(std::string_view owner) {
  const std::size_t at = owner.rfind('@');
  if (at == std::string_view::npos) return std::nullopt;
  std::vector<std::string_view> parts;
  for (std::string_view rest = owner.substr(at + 1);;) {
    const std::size_t slash = rest.find('/');
    parts.push_back(rest.substr(0, slash));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  ProcessIdentity identity;
  if (parts.size() != 4 || !parse(parts[0], identity.pid) || !parse(parts[1], identity.started))
    return std::nullopt;
  identity.namespaces = parts[2];
  identity.boot = parts[3];
  if (identity.pid <= 0 || identity.namespaces.empty() || identity.boot.empty())
    return std::nullopt;
  return identity;
}

bool is_gone(const ProcessIdentity& owner, const std::optional<ProcessIdentity>& self,
             const std::function<Sighting(std::int64_t pid)>& look) {
  if (!self || owner.boot != self->boot || owner.namespaces != self->namespaces) return false;
  const Sighting seen = look(owner.pid);
  switch (seen.state) {
    case Sighting::State::none:
      return true;
    case Sighting::State::alive:
      return seen.started != owner.started;
    case Sighting::State::dead:
      return true;
    case Sighting::State::unknown:
      return false;
  }
  return false;
}

bool is_gone(std::string_view owner) {
  const auto identity = identity_in(owner);
  return identity && is_gone(*identity, own_identity(), look_for_process);
}

}  // namespace dovetail
