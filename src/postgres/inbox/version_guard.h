// The applied version of each aggregate, so that a consumer skips late events.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "postgres/connection/pipeline.h"

namespace dovetail::postgres {

// For one transaction: add() the events, lock(), call supersedes() in the order of the events, then
// store(). Rows are locked in the order of their keys, so that two consumers cannot wait for each
// other in a circle. Events without a key or a version are not guarded.
class VersionGuard {
 public:
  void clear() { versions_.clear(); }
  void add(std::int32_t handler, const Event& event);
  bool empty() const { return versions_.empty(); }

  // Sends the statement that locks the rows; it keeps one answer, for read().
  Status lock(Pipeline& pipeline) const;
  void read(const Rows& rows);
  // True: this version or a later one is applied. False: this version now counts as applied.
  bool supersedes(std::int32_t handler, const Event& event);
  // The same, without counting it as applied.
  bool knows_as_late(std::int32_t handler, const Event& event) const;
  // Sends the new versions.
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
