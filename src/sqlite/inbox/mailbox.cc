#include "sqlite/inbox/mailbox.h"

#include "core/check.h"
#include "core/inbox/inbox.h"
#include "sqlite/connection/event_columns.h"

namespace dovetail::sqlite {

namespace {

// Skips a repeated id only: OR IGNORE would also hide what the table's rules refuse.
constexpr std::string_view kInsertIntoMailbox =
    "INSERT INTO dovetail_mailbox (id, topic, aggregate_type, aggregate_id, type, content_type, "
    "headers, payload, aggregate_version, created_at, received_at) "
    "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11) ON CONFLICT (id) DO NOTHING";

constexpr std::string_view kSame =
    "SELECT CAST(payload AS BLOB) = ?2 FROM dovetail_mailbox WHERE id = ?1";

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

MailboxSink::MailboxSink(MailboxOptions options, Clock& clock)
    : options_(std::move(options)),
      topics_(options_.topics.begin(), options_.topics.end()),
      clock_(clock) {}

Status MailboxSink::open() {
  rollback(database_.get());
  submitted_.clear();
  last_collected_ = last_submitted_;
  fence_.clear();
  Result<Database> database = open_store(options_.path);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  file_ = database_.file();
  DOVETAIL_TRY(database_.prepare(same_, kSame));
  return database_.prepare(insert_, kInsertIntoMailbox);
}

Status MailboxSink::submit(Events events) {
  std::vector<const Event*> batch;
  if (!spare_.empty()) {
    batch = std::move(spare_.back());
    spare_.pop_back();
  }
  batch.assign(events.begin(), events.end());
  submitted_.push_back(std::move(batch));
  ++last_submitted_;
  return {};
}

Result<bool> MailboxSink::collect(std::span<Outcome> outcomes, Duration) {
  if (submitted_.empty()) return false;
  DOVETAIL_CHECK(outcomes.size() == submitted_.front().size());
  DOVETAIL_TRY(begin_immediate(database_.get(), "delivering into the mailbox"));
  if (const Status inserted = insert_all(submitted_.front(), last_collected_ + 1, outcomes);
      !inserted) {
    rollback(database_.get());
    return fail(inserted.error());
  }
  DOVETAIL_TRY(commit(database_.get(), "delivering into the mailbox"));
  ++last_collected_;
  spare_.push_back(std::move(submitted_.front()));
  submitted_.pop_front();
  checkpointer_.after_commit(database_.get(), file_);
  return true;
}

Status MailboxSink::insert_all(Events events, std::uint64_t batch, std::span<Outcome> outcomes) {
  const std::int64_t now = to_stored(clock_.wall());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = *events[i];
    Outcome& outcome = outcomes[i];
    if (fence_.blocks(event.key_hash, batch)) {
      outcome = Outcome{Fate::again, 0, "an earlier event of its key was rejected"};
      continue;
    }
    if (std::string reason = why_refused(event); !reason.empty())
      outcome = Outcome{Fate::rejected, 0, std::move(reason)};
    else
      DOVETAIL_TRY(insert_one(event, outcome, now));
    if (outcome.fate == Fate::rejected) fence_.raise(event.key_hash, last_submitted_);
  }
  return {};
}

std::string MailboxSink::why_refused(const Event& event) const {
  if (!topics_.empty() && !topics_.contains(std::string(event.topic)))
    return "the mailbox does not accept the topic \"" + std::string(event.topic) +
           "\", only: " + list_of(options_.topics) + "; check the routing and the list of topics";
  if (event.payload.size() > options_.payload_bytes_max)
    return "the payload has " + std::to_string(event.payload.size()) +
           " bytes, the limit of the mailbox is " + std::to_string(options_.payload_bytes_max) +
           "; raise the limit, or send a reference instead";
  return {};
}

Status MailboxSink::insert_one(const Event& event, Outcome& outcome, std::int64_t now) {
  bind_event(insert_, event, 1);
  const Status inserted = insert_.bind(11, now).run();
  if (inserted && insert_.changes() == 0) return compare(event, outcome);
  if (inserted) {
    outcome = Outcome{Fate::confirmed};
    return {};
  }
  // The table refuses this event only: the transaction continues.
  if (inserted.error().code != Errc::rejected || !in_transaction(database_.get()))
    return fail(inserted.error());
  outcome = Outcome{Fate::rejected, 0, inserted.error().text};
  return {};
}

// Its id exists already.
Status MailboxSink::compare(const Event& event, Outcome& outcome) {
  const Reading reading(same_);
  const Result<bool> row = same_.bind_id(1, event.id).bind_blob(2, event.payload).step();
  if (!row) return fail(row.error());
  const bool is_other = *row && same_.integer(0) == 0;
  outcome = is_other ? Outcome{Fate::rejected, 0, std::string(refusal_of(Arrival::conflict))}
                     : Outcome{Fate::duplicate};
  return {};
}

}  // namespace dovetail::sqlite
