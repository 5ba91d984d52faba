// Which version of each aggregate a consumer has applied, so that what comes late is left alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "postgres/connection/pipeline.h"

namespace dovetail::postgres {

// For one transaction: add() what came, lock(), then ask supersedes() in the order of the events,
// then store(). Rows are locked in the order of their keys, so that two consumers never wait for
// each other in a circle. Events without a key or a version are not guarded.
class VersionGuard {
 public:
  void clear() { versions_.clear(); }
  void add(std::int32_t handler, const Event& event);
  bool empty() const { return versions_.empty(); }

  // Sends what locks the rows; one answer is kept, for read().
  Status lock(Pipeline& pipeline) const;
  void read(const Rows& rows);
  // True: a version as late as this one, or later, is applied. False: it counts as applied now.
  bool supersedes(std::int32_t handler, const Event& event);
  // The same without counting it.
  bool knows_as_late(std::int32_t handler, const Event& event) const;
  // Sends what was counted.
  Status store(Pipeline& pipeline) const;

 private:
  struct Version {
    std::int64_t value = 0;
    bool is_changed = false;
  };
  using Key = std::tuple<std::int32_t, std::string, std::string>;
  static Key key_of(std::int32_t handler, const Event& event) {
    return {handler, std::string(event.aggregate_type), std::string(event.aggregate_id)};
  }

  std::map<Key, Version> versions_{};
};

}  // namespace dovetail::postgres
