// The owner of a lease, in a form from which another process of the machine can prove that the
// owner is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail {

// One process among all that ever ran. A process id alone is used again, in the same boot and in
// other containers.
struct ProcessIdentity {
  std::string boot{};        // of the machine
  std::string namespaces{};  // in which `pid` and `started` mean something
  std::int64_t pid = 0;
  std::uint64_t started = 0;  // in ticks since the boot
  bool operator==(const ProcessIdentity&) const = default;
};

// Of this process. Empty if /proc is missing or belongs to another namespace.
std::optional<ProcessIdentity> own_identity();

// What is known about the process that has this id now.
struct Sighting {
  enum class State : std::uint8_t { none, alive, dead, unknown };
  State state = State::unknown;
  std::uint64_t started = 0;  // when it is alive or dead
};
Sighting look_for_process(std::int64_t pid);
// The same from the text of /proc/PID/stat.
Sighting sighting_in(const std::string& stat);

// "label#1a2b3c", then '@' and the identity of this process. Each call gives another one.
std::string lease_owner(std::string_view label);
// The part for people.
std::string shown_owner(std::string_view owner);
// Empty if the owner has no identity, for example one of an earlier version.
std::optional<ProcessIdentity> identity_in(std::string_view owner);

// Whether the process that held a lease is gone and can do nothing any more: it ran in this boot of
// this machine and in our process-id namespace, and no process has its id and its start time. A
// dead process that its parent has not collected is gone, too: it has no threads. A closed database
// connection proves nothing: the process may still send to a broker.
bool is_gone(const ProcessIdentity& owner, const std::optional<ProcessIdentity>& self,
             const std::function<Sighting(std::int64_t pid)>& look);
bool is_gone(std::string_view owner);

}  // namespace dovetail
