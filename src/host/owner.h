// Who holds a lease, written so that another process of the same machine can prove that its owner
// is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail {

// One process among all that ever run. A process id alone comes again, in the same boot and in
// other containers.
struct ProcessIdentity {
  std::string boot{};        // of the machine
  std::string namespaces{};  // in which `pid` and `started` mean something
  std::int64_t pid = 0;
  std::uint64_t started = 0;  // in ticks since the boot
  bool operator==(const ProcessIdentity&) const = default;
};

// Of this process; none where /proc does not tell, or tells of other processes than ours.
std::optional<ProcessIdentity> own_identity();

// What is seen of the process that has this id now.
struct Sighting {
  enum class State : std::uint8_t { none, alive, dead, unknown };
  State state = State::unknown;
  std::uint64_t started = 0;  // when it is alive or dead
};
Sighting look_for_process(std::int64_t pid);

// "label#1a2b3c" and, behind an '@', the identity of this process. No two are the same.
std::string lease_owner(std::string_view label);
// The part that is for people.
std::string shown_owner(std::string_view owner);
// None: an owner that says nothing about itself, such as one of an earlier version.
std::optional<ProcessIdentity> identity_in(std::string_view owner);

// Whether a process that held a lease can do nothing any more: it ran on this boot of this machine,
// in our process-id namespace, and no process with its id and its start is there. One that is dead
// and only waits to be noticed by its parent counts as gone, since none of its threads is left.
// That its connection to the database has ended proves nothing: it may still send to a broker.
bool is_gone(const ProcessIdentity& owner, const std::optional<ProcessIdentity>& self,
             const std::function<Sighting(std::int64_t pid)>& look);
bool is_gone(std::string_view owner);

}  // namespace dovetail
