#include "postgres/outbox/snapshot.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace dovetail::postgres {

namespace {

// Removes a number in the server's format (digits only) from the front.
bool take_number(std::string_view& text, std::uint64_t& value) {
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(stopped - text.data()));
  return true;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text[0] != wanted) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Result<Snapshot> Snapshot::parse(std::string_view text) {
  Snapshot out;
  std::string_view rest = text;
  bool fits = take_number(rest, out.xmin_) && take(rest, ':') && take_number(rest, out.xmax_) &&
              take(rest, ':') && out.xmin_ > 0 && out.xmax_ >= out.xmin_;
  std::uint64_t last = out.xmin_;
  while (fits && !rest.empty()) {
    std::uint64_t xid = 0;
    fits = (out.in_progress_.empty() || take(rest, ',')) && take_number(rest, xid) && xid >= last &&
           xid < out.xmax_;
    out.in_progress_.push_back(xid);
    last = xid;
  }
  if (!fits)
    return fail(Errc::corrupt, "\"" + std::string(text.substr(0, 80)) +
                                   "\" is no snapshot of PostgreSQL; check dovetail.relay_lane");
  return out;
}

bool Snapshot::shows(std::uint64_t xid) const {
  if (xid < xmin_) return true;
  if (xid >= xmax_) return false;
  return !std::binary_search(in_progress_.begin(), in_progress_.end(), xid);
}

std::uint64_t Snapshot::widen(std::uint32_t xid) const {
  const auto distance = static_cast<std::int32_t>(xid - static_cast<std::uint32_t>(xmax_));
  const std::uint64_t full = xmax_ + static_cast<std::uint64_t>(std::int64_t{distance});
  return distance < 0 && full > xmax_ ? 0 : full;
}

bool Snapshot::shows_short(std::uint32_t xid) const {
  const std::uint64_t full = widen(xid);
  return full != 0 && shows(full);
}

std::uint64_t Snapshot::first_shown_by(const Snapshot& later) const {
  const auto ended = std::find_if(in_progress_.begin(), in_progress_.end(),
                                  [&](std::uint64_t xid) { return later.shows(xid); });
  return ended == in_progress_.end() ? xmax_ : *ended;
}

Snapshot Snapshot::with(std::span<const std::uint64_t> xids) const {
  Snapshot out = *this;
  for (const std::uint64_t xid : xids) {
    // Transactions in between have numbers and are not shown.
    for (; out.xmax_ <= xid; ++out.xmax_) out.in_progress_.push_back(out.xmax_);
  }
  std::vector<std::uint64_t> shown(xids.begin(), xids.end());
  std::sort(shown.begin(), shown.end());
  std::erase_if(out.in_progress_, [&](std::uint64_t xid) {
    return std::binary_search(shown.begin(), shown.end(), xid);
  });
  out.xmin_ = out.in_progress_.empty() ? out.xmax_ : out.in_progress_.front();
  return out;
}

Snapshot Snapshot::either(const Snapshot& one, const Snapshot& other) {
  Snapshot out = one.xmax_ >= other.xmax_ ? one : other;
  const Snapshot& older = one.xmax_ >= other.xmax_ ? other : one;
  std::erase_if(out.in_progress_, [&](std::uint64_t xid) { return older.shows(xid); });
  out.xmin_ = out.in_progress_.empty() ? out.xmax_ : out.in_progress_.front();
  return out;
}

std::string Snapshot::text() const {
  std::string out = std::to_string(xmin_) + ":" + std::to_string(xmax_) + ":";
  for (std::size_t i = 0; i < in_progress_.size(); ++i)
    out += (i == 0 ? "" : ",") + std::to_string(in_progress_[i]);
  return out;
}

}  // namespace dovetail::postgres
