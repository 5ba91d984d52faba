// A source that reads a table by snapshot windows, and can be told what else was read from
// it.
#pragma once

#include <cstdint>
#include <string>

#include "core/relay/source.h"
#include "postgres/outbox/progress.h"

namespace dovetail::postgres {

class Windows : public Source {
 public:
  // Of the lane. A stream of the same table counts here, too, after all that was read before;
  // settle() counts for both.
  virtual Progress& progress() = 0;
  // False while a large window is being read in pages.
  virtual bool is_between_windows() const = 0;
  // Reads until exactly what `snapshot` shows is returned; then read_to() of the progress
  // covers it. Call it between windows, when everything that it shows is visible to new
  // statements. Until then read() opens no window of its own; at the end it returns at
  // once.
  virtual Status end_at(const std::string& snapshot) = 0;
  // The same for a snapshot exported as `name`, which equals `snapshot` and is usable during this
  // call. If rows do not name their transactions, the end is exact only in this way: if you have
  // the name, call this function.
  virtual Status end_at_exported(const std::string& name, const std::string& snapshot) {
    (void)name;
    return end_at(snapshot);
  }
  virtual bool has_ended() const = 0;
  // Removes that end: read() continues as usual.
  virtual void go_on() = 0;

  // The table, if it may be published with its schema and is known; else 0.
  virtual std::int64_t table_oid() const { return 0; }

  // Work besides reading, such as releasing due delayed events. Call it sometimes while another
  // part reads.
  virtual Status do_chores() = 0;
};

}  // namespace dovetail::postgres
