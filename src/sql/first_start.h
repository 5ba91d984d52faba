// What a relay's first start fixes for all of its later starts: what it reads, its number of lanes,
// where its events go, and where it begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/operations.h"
#include "dovetail/result.h"
#include "sql/session.h"

namespace dovetail {

// $1 of every statement is the relay.
struct FirstStartStatements {
  // $2 filter, $3 topics. Returns what it reads (as to_string(SourceKind) writes it), its number of
  // lanes, its target ('': unknown), and whether filter and topics are the ones it has. No row: it
  // has never started.
  std::string find;
  // Run first in a transaction. Other first starts then wait until it ends. Empty: they wait
  // without it.
  std::string lock;
  // $2 lanes, $3 what it reads. One row for each lane, which has passed nothing, or all that is
  // there.
  std::string start;
  std::string start_now;
  // $2 target. Changes only rows without a target.
  std::string bind;
  // $2 filter, $3 topics.
  std::string keep;
};

struct FirstStart {
  std::string_view relay;  // the progress has this name
  SourceKind source = SourceKind::outbox;
  std::uint32_t lanes = 1;
  bool starts_now = false;  // of an outbox or mailbox: a first start leaves out what is there
  // Where its events go, or come from if it reads a broker. Two processes of one name would
  // otherwise split its events over two targets. Empty: unknown, and not checked.
  std::string_view target{};
};

// What the relay carries, for people. It may change with each start.
struct Carried {
  std::string_view filter{};  // as RelayFilter::json()
  std::string_view topics{};  // as the database stores them
};

// Returns the number of lanes, which is that of the first start. `carried` null: it stays as it is.
// rejected: the name or the number of lanes is not possible; or a relay of this name reads
// something else, or has another target.
Result<std::uint32_t> start_relay(SqlSession& session, const FirstStartStatements& sql,
                                  const FirstStart& start, const Carried* carried);

inline constexpr std::uint32_t kLanesMax = 256;

}  // namespace dovetail
