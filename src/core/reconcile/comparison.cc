#include "core/reconcile/comparison.h"

#include <algorithm>

#include "core/check.h"
#include "core/event/sha256.h"
#include "core/inbox/forgotten.h"

namespace dovetail::reconcile {

namespace {

constexpr std::uint64_t kWatchEvery = 500;
constexpr std::size_t kAskedTogether = 500;  // ids of one question to the outbox

// The result of one event for one receiver, as compared_digest has it.
enum class Verdict : char {
  received = 'r',
  altered = 'a',
  missing = 'm',
  held = 'h',
  skipped = 's',
  forgotten = 'f',
  extra = 'e',
};

bool is_version(const EventId& id, unsigned version) {
  return id.bytes[6] >> 4 == version && id.bytes[8] >> 6 == 2;
}

// What the receivers have of one event, in one slot for each of them.
struct Seen {
  std::uint64_t copies = 0;
  WallTime first_at{};
  bool is_altered = false;
  bool is_verified = false;
  std::int32_t partition = -1;  // of the first copy, or of one that is altered
  std::int64_t offset = -1;

  void add(const Received& row, std::int64_t digest) {
    const bool differs = row.digest && *row.digest != digest;
    if (copies == 0 || (differs && !is_altered)) {
      partition = row.partition;
      offset = row.offset;
    }
    first_at = copies == 0 ? row.at : std::min(first_at, row.at);
    is_altered = is_altered || differs;
    is_verified = is_verified || row.digest.has_value();
    ++copies;
  }
};

class Comparison {
 public:
  Comparison(const Rules& rules, const Sides& sides, const Watch& watch)
      : rules_(rules), sides_(sides), watch_(watch) {}

  Result<Outcome> run();

 private:
  Status advance_published();
  Status advance_received();
  Status compare_one();
  Status find_hold(const EventId& id, std::optional<Hold>& hold);
  void judge(const Published& published, std::size_t receiver, const Seen& seen,
             std::optional<Hold> hold);
  void judge_received(const Published& published, std::size_t receiver, const Seen& seen);
  void judge_missing(const Published& published, std::size_t receiver, std::optional<Hold> hold);
  Status judge_extra(const Received& row);
  Status ask_about_extras();
  void find(Finding finding);
  void digest(const EventId& id, std::int64_t payload, std::size_t receiver, Verdict result);
  Outcome finish();

  const Rules& rules_;
  const Sides& sides_;
  const Watch& watch_;
  const Published* published_ = nullptr;
  const Received* received_ = nullptr;
  std::vector<const Held*> held_{};
  std::vector<Seen> seen_{};
  std::vector<Received> extras_{};  // the outbox is still to be asked about them
  std::uint64_t read_ = 0;
  std::uint64_t watched_ = 0;
  Outcome outcome_{};
  std::array<std::size_t, kKinds.size()> listed_{};
  std::array<Sha256, kKinds.size()> lines_{};
  Sha256 compared_{};
};

Status Comparison::advance_published() {
  const auto next = sides_.published.next();
  if (!next) return fail(next.error());
  published_ = *next;
  if (published_ != nullptr) ++read_;
  return {};
}

Status Comparison::advance_received() {
  const auto next = sides_.received.next();
  if (!next) return fail(next.error());
  received_ = *next;
  if (received_ != nullptr) DOVETAIL_CHECK(received_->receiver < rules_.receivers.size());
  return {};
}

Result<Outcome> Comparison::run() {
  seen_.resize(rules_.receivers.size());
  DOVETAIL_TRY(advance_published());
  DOVETAIL_TRY(advance_received());
  for (Stream<Held>* stream : sides_.held) {
    const auto first = stream->next();
    if (!first) return fail(first.error());
    held_.push_back(*first);
  }
  while (published_ != nullptr || received_ != nullptr) {
    if (watch_ && ++watched_ % kWatchEvery == 0 && !watch_(read_))
      return fail(Errc::stopped, "the comparison was stopped; nothing was reported");
    const bool only_received =
        published_ == nullptr || (received_ != nullptr && received_->id < published_->event.id);
    if (only_received) {
      DOVETAIL_TRY(judge_extra(*received_));
      DOVETAIL_TRY(advance_received());
    } else {
      DOVETAIL_TRY(compare_one());
      DOVETAIL_TRY(advance_published());
    }
  }
  DOVETAIL_TRY(ask_about_extras());
  return finish();
}

Status Comparison::compare_one() {
  const Published& published = *published_;
  const EventId& id = published.event.id;
  const bool is_judged =
      published.event.created_at >= rules_.from && published.event.created_at < rules_.to;
  // What a receiver has of an event that is not due yet is extra.
  if (published.progress == Progress::delayed) {
    if (is_judged) ++outcome_.counts.delayed;
    return {};
  }
  std::fill(seen_.begin(), seen_.end(), Seen{});
  while (received_ != nullptr && received_->id == id) {
    seen_[received_->receiver].add(*received_, published.digest);
    DOVETAIL_TRY(advance_received());
  }
  std::optional<Hold> hold;
  DOVETAIL_TRY(find_hold(id, hold));
  if (!is_judged) {
    ++outcome_.counts.outside;
    return {};
  }
  ++outcome_.counts.events;
  for (std::size_t i = 0; i < seen_.size(); ++i) judge(published, i, seen_[i], hold);
  return {};
}

// Of several holds the one that an operator has to know first.
Status Comparison::find_hold(const EventId& id, std::optional<Hold>& hold) {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    while (held_[i] != nullptr && held_[i]->id <= id) {
      if (held_[i]->id == id) hold = std::min(hold.value_or(Hold::discarded), held_[i]->hold);
      const auto next = sides_.held[i]->next();
      if (!next) return fail(next.error());
      held_[i] = *next;
    }
  }
  return {};
}

void Comparison::judge(const Published& published, std::size_t receiver, const Seen& seen,
                       std::optional<Hold> hold) {
  if (seen.copies != 0) {
    judge_received(published, receiver, seen);
    return;
  }
  const Receiver& who = rules_.receivers[receiver];
  if (who.wants && !who.wants(published.event)) {
    ++outcome_.counts.skipped;
    digest(published.event.id, published.digest, receiver, Verdict::skipped);
    return;
  }
  judge_missing(published, receiver, hold);
}

Finding finding_of(Kind kind, const Published& published, const Receiver& receiver) {
  const Event& event = published.event;
  Finding finding;
  finding.kind = kind;
  finding.receiver = receiver.name;
  finding.id = event.id;
  finding.aggregate_type = std::string(event.aggregate_type);
  finding.aggregate_id = std::string(event.aggregate_id);
  finding.type = std::string(event.type);
  finding.published = event.created_at;
  return finding;
}

void Comparison::judge_received(const Published& published, std::size_t receiver,
                                const Seen& seen) {
  Counts& counts = outcome_.counts;
  const auto add = [&](Kind kind) {
    Finding finding = finding_of(kind, published, rules_.receivers[receiver]);
    finding.received = seen.first_at;
    finding.partition = seen.partition;
    finding.offset = seen.offset;
    find(std::move(finding));
  };
  ++counts.received;
  counts.repeated += seen.copies - 1;
  if (!seen.is_verified) ++counts.unverified;
  if (seen.is_altered) add(Kind::altered);
  const Duration took = seen.first_at - published.event.created_at;
  if (took < Duration{0}) ++counts.early;
  outcome_.longest = std::max(outcome_.longest, took);
  if (rules_.late_after && took > *rules_.late_after) add(Kind::late);
  digest(published.event.id, published.digest, receiver,
         seen.is_altered ? Verdict::altered : Verdict::received);
}

void Comparison::judge_missing(const Published& published, std::size_t receiver,
                               std::optional<Hold> hold) {
  Counts& counts = outcome_.counts;
  const Receiver& who = rules_.receivers[receiver];
  const EventId& id = published.event.id;
  const bool may_be_on_its_way = published.progress == Progress::pending ||
                                 published.event.created_at >= rules_.on_the_way_since;
  if (hold || may_be_on_its_way) {
    const Hold why = hold.value_or(Hold::waiting);
    ++(why == Hold::parked    ? counts.parked
       : why == Hold::waiting ? counts.waiting
                              : counts.discarded);
    digest(id, published.digest, receiver, Verdict::held);
    return;
  }
  if (is_forgotten(published.event, who.forgotten_until)) {
    ++counts.forgotten;
    digest(id, published.digest, receiver, Verdict::forgotten);
    return;
  }
  find(finding_of(Kind::missing, published, who));
  digest(id, published.digest, receiver, Verdict::missing);
}

// Only a receiver has it. The outbox may have had it in a time that it does not retain, whichever
// of the times that are known it retains by.
Status Comparison::judge_extra(const Received& row) {
  const std::optional<WallTime> made = time_of(row.id);
  const WallTime available = row.available_at.value_or(made.value_or(row.at));
  const WallTime first = std::min(available, made.value_or(available));
  if (first < rules_.from || std::max(available, first) >= rules_.to) return {};
  if (!made && first < rules_.untimed_from) return {};
  // Such an id was made from the name of a message that carried none.
  if (rules_.has_other_sources || is_version(row.id, 5)) {
    ++outcome_.counts.foreign;
    return {};
  }
  extras_.push_back(row);
  return extras_.size() < kAskedTogether ? Status{} : ask_about_extras();
}

Status Comparison::ask_about_extras() {
  std::vector<EventId> ids;
  for (const Received& row : extras_) ids.push_back(row.id);
  std::vector<EventId> known;
  if (sides_.find_now && !ids.empty()) {
    auto found = sides_.find_now(ids);
    if (!found) return fail(found.error());
    known = std::move(*found);
    std::sort(known.begin(), known.end());
  }
  for (const Received& row : extras_) {
    if (std::binary_search(known.begin(), known.end(), row.id)) {
      ++outcome_.counts.newer;
      continue;
    }
    Finding finding;
    finding.kind = Kind::extra;
    finding.receiver = rules_.receivers[row.receiver].name;
    finding.id = row.id;
    finding.received = row.at;
    finding.partition = row.partition;
    finding.offset = row.offset;
    find(std::move(finding));
    digest(row.id, row.digest.value_or(0), row.receiver, Verdict::extra);
  }
  extras_.clear();
  return {};
}

void Comparison::find(Finding finding) {
  const auto kind = static_cast<std::size_t>(finding.kind);
  Counts& counts = outcome_.counts;
  const std::array<std::uint64_t*, kKinds.size()> count = {&counts.missing, &counts.extra,
                                                           &counts.altered, &counts.late};
  ++*count[kind];
  lines_[kind].add(findings_line(finding.kind, finding.receiver, finding.id));
  if (listed_[kind]++ < rules_.findings_max) outcome_.findings.push_back(std::move(finding));
}

void Comparison::digest(const EventId& id, std::int64_t payload, std::size_t receiver,
                        Verdict result) {
  std::array<char, 16 + 8 + 4 + 1> bytes{};
  std::copy(id.bytes.begin(), id.bytes.end(), bytes.begin());
  for (std::size_t i = 0; i < 8; ++i)
    bytes[16 + i] = static_cast<char>(static_cast<std::uint64_t>(payload) >> (56 - 8 * i));
  for (std::size_t i = 0; i < 4; ++i) bytes[24 + i] = static_cast<char>(receiver >> (24 - 8 * i));
  bytes[28] = static_cast<char>(result);
  compared_.add({bytes.data(), bytes.size()});
}

Outcome Comparison::finish() {
  std::stable_sort(outcome_.findings.begin(), outcome_.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
  Sha256 all;
  for (Sha256& lines : lines_) all.add(to_hex(lines.finish()));
  outcome_.findings_digest = to_hex(all.finish());
  outcome_.compared_digest = to_hex(compared_.finish());
  return std::move(outcome_);
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::missing:
      return "missing";
    case Kind::extra:
      return "extra";
    case Kind::altered:
      return "altered";
    case Kind::late:
      return "late";
  }
  return "late";
}

std::string findings_line(Kind kind, std::string_view receiver, const EventId& id) {
  std::string line(to_string(kind));
  line.append(" ").append(receiver).append(" ").append(id.to_string()).append("\n");
  return line;
}

Result<Outcome> compare(const Rules& rules, const Sides& sides, const Watch& watch) {
  return Comparison(rules, sides, watch).run();
}

}  // namespace dovetail::reconcile
