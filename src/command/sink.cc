#include "command/sink.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "command/event_json.h"
#include "core/check.h"

namespace dovetail::command {

namespace {

constexpr int kRejected = 65;  // EX_DATAERR
constexpr int kNotNow = 75;    // EX_TEMPFAIL
// One event may need something that is unavailable. This many in a row, without a success, are an
// outage.
constexpr std::uint32_t kOutage = 5;

bool may_run(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

Result<std::string> find_program(const std::vector<std::string>& command) {
  if (command.empty() || command.front().empty())
    return fail(Errc::rejected, "the command is empty; set it to a program and its arguments");
  const std::string& name = command.front();
  const auto missing = [&] {
    return fail(Errc::unavailable, name +
                                       " does not exist or is not executable; check the path and "
                                       "the permissions of the program");
  };
  if (name.find('/') != std::string::npos) {
    if (!may_run(name)) return missing();
    return name;
  }
  const char* const path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
  while (!folders.empty()) {
    const std::size_t end = folders.find(':');
    const std::string_view folder = folders.substr(0, end);
    const std::string file = std::string(folder) + "/" + name;
    if (!folder.empty() && may_run(file)) return file;
    folders.remove_prefix(end == std::string_view::npos ? folders.size() : end + 1);
  }
  return missing();
}

// Variables that any program may need; none is a secret.
constexpr const char* kUsual[] = {"PATH", "HOME", "LANG", "TZ"};

// The permitted variables of our environment, and those about the event.
std::vector<std::string> environment_of(const Event& event,
                                        const std::vector<std::string>& allowed) {
  std::vector<std::string> variables;
  const auto pass_on = [&](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    if (value != nullptr && !name.starts_with("DOVETAIL_EVENT_"))
      variables.push_back(name + "=" + value);
  };
  for (const char* name : kUsual) pass_on(name);
  for (const std::string& name : allowed)
    if (std::find(std::begin(kUsual), std::end(kUsual), name) == std::end(kUsual)) pass_on(name);
  const auto add = [&](std::string_view name, std::string_view value) {
    variables.push_back("DOVETAIL_EVENT_" + std::string(name) + "=" + std::string(value));
  };
  add("ID", event.id.to_string());
  add("TYPE", event.type);
  add("KEY", event.aggregate_id);
  add("AGGREGATE_TYPE", event.aggregate_type);
  add("TOPIC", event.topic);
  return variables;
}

}  // namespace

Status check(const std::vector<std::string>& command) {
  const Result<std::string> program = find_program(command);
  if (!program) return fail(program.error());
  return {};
}

CommandSink::CommandSink(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  DOVETAIL_CHECK(options_.processes_max > 0);
}

CommandSink::~CommandSink() = default;

Status CommandSink::open() {
  runs_.clear();
  running_keys_.clear();
  waiting_.clear();
  submitted_.clear();
  failed_.clear();
  put_off_ = 0;
  trouble_.reset();
  Result<std::string> program = find_program(options_.command);
  if (!program) return fail(program.error());
  program_ = std::move(*program);
  return {};
}

Status CommandSink::submit(Events events) {
  for (Item& item : submitted_.add(events, failed_.number_batch())) waiting_.push_back(&item);
  start_runs();
  return {};
}

// Starts events in order. Skips keys with a failure and keys that already run.
void CommandSink::start_runs() {
  std::vector<Item*> skipped;
  while (!waiting_.empty() && (runs_.size() < options_.processes_max || trouble_)) {
    Item& item = *waiting_.front();
    waiting_.pop_front();
    const std::uint64_t key = item.event->key_hash;
    if (trouble_) {
      resolve(item, Outcome{Fate::again, 0, trouble_->text});
    } else if (failed_.block(key, item.submission->number)) {
      resolve(item, Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"});
    } else if (running_keys_.contains(key)) {
      skipped.push_back(&item);
    } else if (!start_run(item)) {
      skipped.push_back(&item);
    }
  }
  waiting_.insert(waiting_.begin(), skipped.begin(), skipped.end());
}

bool CommandSink::start_run(Item& item) {
  const std::string input = event_json(*item.event);
  Result<std::unique_ptr<Process>> process = Process::start(
      {program_, options_.command, environment_of(*item.event, options_.environment), input});
  if (!process) {
    give_up(std::move(process.error()));
    return false;
  }
  if (item.event->has_key()) running_keys_.insert(item.event->key_hash);
  runs_.push_back(Run{&item, std::move(*process), clock_.now(), false});
  return true;
}

Result<bool> CommandSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  const TimePoint until = clock_.now() + timeout;
  while (!submitted_.empty()) {
    take_ended_runs();
    start_runs();
    const auto& oldest = submitted_.oldest();
    if (trouble_ && runs_.empty() && submitted_.nothing_is_told()) return fail(*trouble_);
    if (oldest.unresolved == 0 && (!trouble_ || oldest.told > 0 || runs_.empty())) {
      failed_.handed_out(oldest.number);
      submitted_.hand_out(outcomes);
      return true;
    }
    const TimePoint now = clock_.now();
    if (now >= until) return false;
    wait(until - now);
  }
  return false;
}

void CommandSink::wait(Duration timeout) {
  kill_late_runs();
  std::vector<Process*> processes;
  for (const Run& run : runs_) {
    processes.push_back(run.process.get());
    if (!run.timed_out) timeout = std::min(timeout, run.started + options_.timeout - clock_.now());
  }
  Process::wait_any(processes, std::max(timeout, Duration{0}));
}

void CommandSink::kill_late_runs() {
  const TimePoint now = clock_.now();
  for (Run& run : runs_) {
    if (run.timed_out || now < run.started + options_.timeout) continue;
    run.timed_out = true;
    run.process->kill_group();
  }
}

void CommandSink::take_ended_runs() {
  kill_late_runs();
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (!run->process->has_ended()) {
      ++run;
      continue;
    }
    Item& item = *run->item;
    running_keys_.erase(item.event->key_hash);
    Outcome outcome = outcome_of(*run);
    run = runs_.erase(run);
    put_off_ = outcome.fate == Fate::busy ? put_off_ + 1 : 0;
    const std::string reason = outcome.reason;
    resolve(item, std::move(outcome));
    if (put_off_ >= kOutage) give_up(Error{Errc::unavailable, reason});
  }
}

Outcome CommandSink::outcome_of(const Run& run) {
  const Ending& ending = run.process->ending();
  if (ending.signal == 0 && ending.exit_code == 0) return Outcome{Fate::confirmed, 0, {}};
  const std::string line = last_line(run.process->errors());
  const std::string said = line.empty() ? "" : ", saying: " + line;
  if (run.timed_out) {
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout);
    return Outcome{Fate::failed, 0,
                   "the command took longer than " + std::to_string(limit.count()) +
                       " ms and was killed" + said + "; check the command, or raise its timeout"};
  }
  if (ending.signal != 0)
    return Outcome{Fate::failed, 0,
                   "the command was killed by signal " + std::to_string(ending.signal) + said +
                       "; check the command"};
  const std::string ended = "the command exited with " + std::to_string(ending.exit_code) + said;
  if (ending.exit_code == kRejected)
    return Outcome{Fate::rejected, 0, ended + "; check the event, then replay or discard it"};
  if (ending.exit_code == kNotNow)
    return Outcome{Fate::busy, 0, ended + "; check that everything the command needs is available"};
  return Outcome{Fate::failed, 0, ended + "; check the command"};
}

// Starts nothing more. Still waits for running programs: they may succeed and then need not run
// again.
void CommandSink::give_up(Error error) {
  if (!trouble_) trouble_ = std::move(error);
}

void CommandSink::resolve(Item& item, Outcome outcome) {
  if (outcome.fate != Fate::confirmed) failed_.add(item.event->key_hash, item.submission->number);
  submitted_.resolve(item, std::move(outcome));
}

}  // namespace dovetail::command
