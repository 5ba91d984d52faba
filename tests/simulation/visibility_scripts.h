// Five short histories of transactions that break popular ways to read an outbox. They are data, so
// a model and a real server can be tested with the same steps by named sessions, and with the
// expected result of each way of reading.
#pragma once

#include <string_view>
#include <vector>

namespace dovetail::sim {

enum class Action : unsigned char {
  begin,
  begin_read_only,          // a transaction that only reads, REPEATABLE READ
  take_xid,                 // SELECT pg_current_xact_id()
  begin_in_other_database,  // and writes there
  next_seq,                 // SELECT nextval(): takes a number but no transaction id
  insert,                   // an event named `event`; its number is drawn now
  insert_with_taken_seq,    // the same with the number from next_seq
  commit,
  poll,  // every way of reading reads once and remembers its position
};

struct Step {
  char session;
  Action action;
  std::string_view event{};
};

struct VisibilityScript {
  std::string_view name;
  std::vector<Step> steps;
  // The names of the events, in the order in which each way has read them.
  std::string_view
      by_windows;  // visible now and not before, ordered by number: must always be right
  std::string_view by_xmin_gate;  // below the oldest running transaction, cursor by number
  std::string_view by_xid_order;  // below the oldest running transaction, ordered by transaction id
  std::string_view by_cursor;     // number above the last one read
};

inline const std::vector<VisibilityScript>& visibility_scripts() {
  using enum Action;
  static const std::vector<VisibilityScript> scripts = {
      {"E1 a gate at the oldest transaction inverts a key",
       {{'A', begin},
        {'A', take_xid},
        {'D', begin},
        {'D', take_xid},
        {'B', begin},
        {'B', insert, "b"},
        {'B', commit},
        {'A', insert, "a"},
        {'A', commit},
        {'-', poll}},
       "b a",
       "a",
       "a",
       "b a"},
      {"E2 order by transaction id inverts a key, also without anything running",
       {{'A', begin},
        {'A', take_xid},
        {'B', begin},
        {'B', insert, "b"},
        {'B', commit},
        {'A', insert, "a"},
        {'A', commit},
        {'-', poll}},
       "b a",
       "b a",
       "a b",
       "b a"},
      {"E3 a cursor by number jumps over a late commit, gate or no gate",
       {{'B', begin},
        {'B', take_xid},
        {'C', begin},
        {'C', insert, "c"},
        {'B', insert, "b"},
        {'B', commit},
        {'-', poll},
        {'C', commit},
        {'-', poll}},
       "b c",
       "b",
       "b c",
       "b"},
      {"E4 a reader holds nothing back, a writer in another database does",
       {{'R', begin_read_only},
        {'A', begin},
        {'A', insert, "a"},
        {'A', commit},
        {'-', poll},
        {'O', begin_in_other_database},
        {'B', begin},
        {'B', insert, "b"},
        {'B', commit},
        {'-', poll}},
       "a b",
       "a",
       "a",
       "a b"},
      {"E5 a number takes no transaction id, so the two orders are independent",
       {{'A', begin},
        {'A', next_seq},
        {'B', begin},
        {'B', insert, "b"},
        {'B', commit},
        {'A', insert_with_taken_seq, "a"},
        {'A', commit},
        {'-', poll}},
       "a b",
       "a b",
       "b a",
       "a b"},
  };
  return scripts;
}

}  // namespace dovetail::sim
