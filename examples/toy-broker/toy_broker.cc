#include "toy_broker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

namespace dovetail::toy {
namespace {

using Length = std::uint32_t;

tl::unexpected<Error> cannot(const std::string& what, const std::string& file) {
  return fail(Errc::unavailable, "cannot " + what + " " + file + ": " + std::strerror(errno) +
                                     "; check the file and its folder");
}

template <class Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<Length>(text.size()));
  out += text;
}

// A record: its length, and the fields of the event.
void put_record(std::string& out, const Event& event) {
  const std::size_t begin = out.size();
  put(out, Length{0});
  out.append(reinterpret_cast<const char*>(event.id.bytes.data()), event.id.bytes.size());
  put(out, event.aggregate_version);
  put(out, event.created_at.time_since_epoch().count());
  for (const std::string_view text : {event.topic, event.aggregate_type, event.aggregate_id,
                                      event.type, event.content_type, event.headers, event.payload})
    put_text(out, text);
  const auto length = static_cast<Length>(out.size() - begin - sizeof(Length));
  std::memcpy(out.data() + begin, &length, sizeof length);
}

// Reads a record front to back. Nothing outside of it is touched, whatever it says.
class Fields {
 public:
  explicit Fields(std::string_view record) : rest_(record) {}
  bool bytes(void* to, std::size_t count) {
    if (rest_.size() < count) return false;
    std::memcpy(to, rest_.data(), count);
    rest_.remove_prefix(count);
    return true;
  }
  bool text(std::string_view& to) {
    Length length = 0;
    if (!bytes(&length, sizeof length) || rest_.size() < length) return false;
    to = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

 private:
  std::string_view rest_;
};

bool get_record(std::string_view record, Event& event) {
  Fields fields(record);
  WallTime::rep created_at = 0;
  const bool is_whole = fields.bytes(event.id.bytes.data(), event.id.bytes.size()) &&
                        fields.bytes(&event.aggregate_version, sizeof event.aggregate_version) &&
                        fields.bytes(&created_at, sizeof created_at) && fields.text(event.topic) &&
                        fields.text(event.aggregate_type) && fields.text(event.aggregate_id) &&
                        fields.text(event.type) && fields.text(event.content_type) &&
                        fields.text(event.headers) && fields.text(event.payload);
  event.created_at = WallTime(WallTime::duration(created_at));
  return is_whole;
}

// The bytes of the record at `at`; empty: it is not whole yet.
std::string record_at(int file, std::int64_t at) {
  Length length = 0;
  if (::pread(file, &length, sizeof length, at) != sizeof length) return {};
  std::string record(length, '\0');
  if (::pread(file, record.data(), length, at + static_cast<std::int64_t>(sizeof length)) !=
      static_cast<ssize_t>(length))
    return {};
  return record;
}

std::int64_t end_of_whole_records(int file) {
  std::int64_t at = 0;
  for (std::string record = record_at(file, at); !record.empty(); record = record_at(file, at))
    at += static_cast<std::int64_t>(sizeof(Length) + record.size());
  return at;
}

Status write_all(int file, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0) return cannot("write", name);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fdatasync(file) == 0 ? Status{} : cannot("flush", name);
}

}  // namespace

void ToySink::disconnect() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

Status ToySink::open() {
  disconnect();
  submitted_.clear();
  file_ = ::open(options_.file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file_ < 0) return cannot("open", options_.file);
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) return cannot("lock", options_.file);
  // What a writer that died left half written was never confirmed.
  return ::ftruncate(file_, end_of_whole_records(file_)) == 0 ? Status{}
                                                              : cannot("cut", options_.file);
}

Status ToySink::submit(Events events) {
  if (file_ < 0) return fail(Errc::unavailable, "the toy broker is not open; open it first");
  std::string records;
  std::vector<Outcome> outcomes;
  for (const Event* event : events) {
    const std::size_t before = records.size();
    put_record(records, *event);
    if (records.size() - before > options_.record_bytes_max) {
      records.resize(before);
      outcomes.push_back({Fate::rejected, 0, "the event is too large for the toy broker"});
    } else {
      outcomes.push_back({Fate::confirmed, 0, {}});
    }
  }
  DOVETAIL_TRY(write_all(file_, records, options_.file));
  submitted_.push_back(std::move(outcomes));
  return {};
}

Result<bool> ToySink::collect(std::span<Outcome> outcomes, Duration) {
  if (submitted_.empty()) return false;
  std::move(submitted_.front().begin(), submitted_.front().end(), outcomes.begin());
  submitted_.pop_front();
  return true;
}

void ToySource::disconnect() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

Status ToySource::open() {
  disconnect();
  file_ = ::open(options_.file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) return cannot("open", options_.file);
  settled_ = 0;
  std::ifstream(progress_file()) >> settled_;
  read_ = written_ = settled_;
  return {};
}

Status ToySource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  if (file_ < 0) return fail(Errc::unavailable, "the toy broker is not open; open it first");
  const auto end = std::chrono::steady_clock::now() + limits.wait_max;
  while (true) {
    DOVETAIL_TRY(read_now(out, limits));
    if (!out.empty() || stop.stop_requested() || std::chrono::steady_clock::now() >= end) return {};
    std::this_thread::sleep_for(options_.look_every);
  }
}

Status ToySource::read_now(Batch& out, const Limits& limits) {
  for (std::size_t events = 0, bytes = 0; events < limits.events_max; ++events) {
    const std::string record = record_at(file_, read_);
    if (record.empty()) return {};
    bytes += record.size();
    if (events > 0 && bytes > limits.bytes_max) return {};
    Event event;
    if (!get_record(record, event))
      return fail(Errc::corrupt, options_.file + " has a record that is not one of ours at byte " +
                                     std::to_string(read_) + "; check who else writes it");
    read_ += static_cast<std::int64_t>(sizeof(Length) + record.size());
    event.position = read_;
    out.append(event);
  }
  return {};
}

Status ToySource::settle(const Batch& batch, std::span<const Settled>) {
  if (!batch.empty()) settled_ = batch.events().back().position;
  return {};
}

Status ToySource::flush() {
  if (settled_ == written_) return {};
  // Not waited for on disk: after a loss of power records come again, and none is left out.
  const std::string next = progress_file() + ".next";
  if (!(std::ofstream(next) << settled_ << std::flush)) return cannot("write", next);
  if (std::rename(next.c_str(), progress_file().c_str()) != 0)
    return cannot("replace", progress_file());
  written_ = settled_;
  return {};
}

}  // namespace dovetail::toy
