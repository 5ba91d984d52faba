// The head of a key: its first unfinished parked event by position. Only a head is due, replayed or
// discarded. An event without aggregate id is always its own head. The mark in its row finds due
// events without a walk over those that wait.
#pragma once

#include <set>
#include <string>

#include "core/relay/parking.h"
#include "sql/session.h"

namespace dovetail {

struct HeadStatements {
  // $1 relay. Until the transaction ends, nobody else changes heads of the relay. Empty: a
  // transaction of the session excludes all others.
  std::string lock;
  // $1 relay, $2 aggregate type, $3 aggregate id. Returns the number of the first unfinished event
  // of the key by position, and whether it is marked as head. Empty: functions of the database mark
  // heads, and nothing is done here.
  std::string first;
  // $1 relay, $2 aggregate type, $3 aggregate id. No event of the key is marked.
  std::string clear;
  // $1 number. The event is marked.
  std::string set;
};

// Call it in the transaction that added or finished events of these keys.
Status refresh_heads(SqlSession& session, const HeadStatements& sql, const std::string& relay,
                     const std::set<OrderKey>& keys);

}  // namespace dovetail
