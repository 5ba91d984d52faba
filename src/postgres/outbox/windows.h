// A source that reads a table by snapshot windows, and that can be told what was read by other
// means.
#pragma once

#include <cstdint>
#include <string>

#include "core/relay/source.h"
#include "postgres/outbox/progress.h"

namespace dovetail::postgres {

class Windows : public Source {
 public:
  // Of the lane. What reads the same table by other means counts there, too, behind all that was
  // read before; settle() counts for both.
  virtual Progress& progress() = 0;
  // False while a window is open that is too large to come at once.
  virtual bool is_between_windows() const = 0;
  // Reads on until exactly what `snapshot` shows was handed out; then read_to() of the
  // progress shows all of it.
  // Comes between windows, and when everything that it shows is visible to new statements. Until
  // then read() opens no window of its own, and returns at once when it has come to the end.
  virtual Status end_at(const std::string& snapshot) = 0;
  // The same for one that a connection has exported under `name`, which shows what `snapshot` says
  // and can be used during this call. Where rows do not say of which transaction they are, only so
  // is the end exact: whoever has the name calls this one.
  virtual Status end_at_exported(const std::string& name, const std::string& snapshot) {
    (void)name;
    return end_at(snapshot);
  }
  virtual bool has_ended() const = 0;
  // Leaves that end behind: read() goes on as ever.
  virtual void go_on() = 0;

  // Of a table that may be published with its schema, as far as it is known; 0: of no such table.
  virtual std::int64_t table_oid() const { return 0; }

  // What the windows do beside reading, such as letting go delayed events that are due. To be
  // called now and then while something else reads.
  virtual Status do_chores() = 0;
};

}  // namespace dovetail::postgres
