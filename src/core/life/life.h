// The life of one event: the facts that stores and brokers know about it, told as steps, as one
// sentence, and as an explanation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/life/receipt.h"
#include "core/operations.h"
#include "dovetail/event.h"

namespace dovetail::life {

// A receipt that a relay left with its progress, as a database keeps it. The event is among its
// positions; of several such receipts of one relay, nobody knows which one is right, unless the
// broker was asked.
struct Delivery {
  WallTime at{};        // when its events were settled, or when the row says it was
  std::string owner{};  // empty: only the row says that it was delivered
  std::uint64_t events = 0;
  std::vector<PlaceRange> places{};
};

// A relay or a consumer that reads an outbox, a mailbox or a broker.
struct RelayFacts {
  std::string name{};
  std::string from{};  // stores
  std::string to{};
  bool is_consumer = false;
  std::string topic{};          // that the event gets here; empty: it keeps none
  std::string topic_because{};  // "the template {aggregate_type}.events", "the publisher set it"
  // Why the relay leaves the event out; empty: it does not.
  std::string left_out_because{};
  // Of a relay that reads a database, as far as the database says it.
  bool is_known = false;  // the database knows the relay
  std::optional<EventState> state{};
  std::optional<WallTime> marked_at{};  // as in OutboxFacts
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
  std::string owner{};  // of the lane, now; empty: nobody
  std::int64_t epoch = 0;
  std::optional<SaidState> said{};
  std::vector<Delivery> deliveries{};  // by time
  std::vector<ParkedRow> parked{};
  std::uint64_t waiting_behind = 0;  // later events of its key
};

// A message of the event, found at the broker.
struct MessageFacts {
  std::string store{};
  std::string topic{};
  BrokerPlace place{};
  WallTime at{};
};

// What a broker said when it was asked for the event.
struct BrokerAnswer {
  std::vector<MessageFacts> messages{};  // without the store
  std::uint64_t unread = 0;              // messages of the noted places that there was no time for
};

// A handler that applied the event, or tries to.
struct HandlerFacts {
  std::string store{};
  std::string name{};                    // "stock", or "stock.ledger"
  std::optional<WallTime> applied_at{};  // empty: not applied
  std::optional<std::int64_t> digest{};  // payload_digest() of what it applied; empty: not known
  std::optional<bool> is_same{};         // as the outbox has it; empty: not known
  std::uint32_t attempts = 0;            // that failed, or are counted now
  std::optional<WallTime> tried_at{};
  // In its queue, or claimed by a worker.
  bool is_queued = false;
  std::optional<WallTime> held_until{};
};

struct OutboxFacts {
  std::string store{};
  SourceKind source = SourceKind::outbox;
  EventRow row{};  // as the first relay sees it
  // Of a table that an application already had; empty: it is dovetail's own.
  std::string table{};
  bool is_dated = true;                 // false: its row does not say when it was made
  std::optional<WallTime> marked_at{};  // when its row says that it was delivered
};

struct Decision {
  std::string store{};
  AuditRow row{};
};

// What could not be asked.
struct Unasked {
  std::string store{};
  std::string why{};
  bool hides_events = false;  // the event may be in its outbox, and nobody could look
};

struct Facts {
  EventId id{};
  std::vector<OutboxFacts> places{};  // outboxes and mailboxes that have it
  std::vector<RelayFacts> relays{};
  std::vector<MessageFacts> messages{};
  std::vector<HandlerFacts> handlers{};
  std::vector<Decision> decisions{};
  std::vector<Unasked> unasked{};
  WallTime now{};
};

struct Step {
  std::optional<WallTime> at{};  // empty: nobody recorded when
  std::string actor{};           // a store, a relay, a handler, or a login
  std::string what{};            // "committed", "confirmed", "parked" ...
  std::string kind{};            // "ok", "info", "warn", "bad", "off", "unknown"
  std::string detail{};
  std::uint32_t attempt = 0;  // 0: not counted
};

struct Line {
  std::string title{};
  std::string text{};
};

struct Life {
  // "delivered", "pending", "waiting", "parked", "discarded", "delayed", "skipped", "unknown"
  std::string state{};
  std::string sentence{};  // what became of it
  // In the order of time. One without a time stands where it must have happened.
  std::vector<Step> steps{};
  // Which rule routed it, who owns its lane, why it waits, what happens next.
  std::vector<Line> explain{};
};

// Whether any store knows the event.
bool is_found(const Facts& facts);

// Pure: the same facts give the same life.
Life life_of(const Facts& facts);

}  // namespace dovetail::life
