// Delivers into the mailbox of another service's SQLite file: a broker without a server.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/inbox/key_fence.h"
#include "core/relay/sink.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

struct MailboxOptions {
  std::string path;                   // must have dovetail's tables
  std::vector<std::string> topics{};  // other topics are rejected; empty: all are accepted
  std::size_t payload_bytes_max = 16 << 20;
};

// A batch is one transaction in collect(), on the disk before it is confirmed. A known event id is
// a duplicate. submit() copies nothing.
class MailboxSink final : public Sink {
 public:
  MailboxSink(MailboxOptions options, Clock& clock);

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

 private:
  Status insert_all(Events events, std::uint64_t batch, std::span<Outcome> outcomes);
  Status insert_one(const Event& event, Outcome& outcome, std::int64_t now);
  Status compare(const Event& event, Outcome& outcome);
  std::string why_refused(const Event& event) const;

  MailboxOptions options_;
  std::unordered_set<std::string> topics_;
  Clock& clock_;
  Database database_;
  std::string file_;
  Statement insert_;
  Statement same_;
  Checkpointer checkpointer_;
  KeyFence fence_;
  std::deque<std::vector<const Event*>> submitted_;
  std::vector<std::vector<const Event*>> spare_;
  std::uint64_t last_submitted_ = 0;
  std::uint64_t last_collected_ = 0;
};

}  // namespace dovetail::sqlite
