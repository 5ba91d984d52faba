#include "proofs/wal/delivery_book.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace dovetail::shop {

namespace {

// Starts with a line end, in case the line before has none, and ends with a word that an incomplete
// line lacks.
constexpr std::string_view kEnd = " end";

std::string line_of(const Event& event) {
  const bool intact = event.payload == payload_of(event.aggregate_id, event.aggregate_version) &&
                      event.type == "changed" && event.aggregate_type == "account";
  return "\n" + event.id.to_string() + " " + std::string(event.aggregate_id) + " " +
         std::to_string(event.aggregate_version) + (intact ? " 1 " : " 0 ") +
         std::to_string(::getpid()) + std::string(kEnd);
}

// Empty unless the line is complete.
std::optional<Delivery> delivery_of(const std::string& line) {
  if (!line.ends_with(kEnd)) return std::nullopt;
  std::istringstream words(line);
  std::string id;
  Delivery delivery;
  if (!(words >> id >> delivery.key >> delivery.version >> delivery.intact >> delivery.by))
    return std::nullopt;
  const auto parsed = EventId::parse(id);
  if (!parsed) return std::nullopt;
  delivery.id = *parsed;
  return delivery;
}

}  // namespace

std::string payload_of(std::string_view key, std::int64_t version) {
  const auto length = static_cast<std::size_t>(version < 0 ? 0 : version % 97);
  return "{\"" + std::string(key) + "\":" + std::to_string(version) + ",\"filler\":\"" +
         std::string(length, 'x') + "\"}";
}

BookSink::~BookSink() {
  if (file_ >= 0) ::close(file_);
}

Status BookSink::open() {
  submitted_.clear();
  if (file_ < 0) file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) return fail(Errc::unavailable, "the book cannot be opened; check " + path_);
  return {};
}

Status BookSink::submit(Events events) {
  submitted_.push_back(
      {{events.begin(), events.end()}, std::chrono::steady_clock::now() + kLatency});
  if (is_watched_()) doom_.reach("sent");
  return {};
}

Status BookSink::write(const std::vector<const Event*>& events) {
  std::string lines;
  bool ends_here = false;
  for (const Event* event : events) {
    lines += line_of(*event);
    ends_here = is_watched_() && doom_.is_due("row");
    if (ends_here) break;
  }
  if (!ends_here) lines += "\n";
  // One call, so that lines of several processes do not mix.
  const ::ssize_t written = ::write(file_, lines.data(), lines.size());
  if (ends_here) Doom::die("row");
  if (written != static_cast<::ssize_t>(lines.size()))
    return fail(Errc::unavailable, "the book cannot be written; check the disk");
  if (is_watched_()) doom_.reach("written");
  return {};
}

Result<bool> BookSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (submitted_.empty()) return false;
  const auto due = submitted_.front().due;
  std::this_thread::sleep_until(std::min(due, std::chrono::steady_clock::now() + timeout));
  if (std::chrono::steady_clock::now() < due) return false;
  DOVETAIL_TRY(write(submitted_.front().events));
  submitted_.pop_front();
  for (Outcome& outcome : outcomes) outcome = Outcome{Fate::confirmed};
  return true;
}

std::size_t DeliveryBook::Hash::operator()(const EventId& id) const {
  std::uint64_t half = 0;
  std::memcpy(&half, id.bytes.data() + 8, sizeof half);
  return half;
}

std::uint64_t DeliveryBook::count_of(int process) const {
  const auto found = counts_.find(process);
  return found == counts_.end() ? 0 : found->second;
}

void DeliveryBook::read_on() {
  std::ifstream in(path_, std::ios::binary);
  if (!in) return;
  in.seekg(static_cast<std::streamoff>(offset_));
  // The last line may be incomplete.
  for (std::string line; std::getline(in, line) && !in.eof();) {
    offset_ += line.size() + 1;
    std::optional<Delivery> delivery = delivery_of(line);
    if (!delivery) continue;
    ++counts_[delivery->by];
    if (seen_.insert(delivery->id).second) {
      first_.push_back(std::move(*delivery));
    } else {
      ++repeated_;
    }
  }
}

}  // namespace dovetail::shop
