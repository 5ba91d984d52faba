// Runs a program for each event, several at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "command/process.h"
#include "core/failure/failed_keys.h"
#include "core/relay/sink.h"
#include "core/sinks/submissions.h"

namespace dovetail::command {

struct Options {
  // The program and its arguments. PATH is searched for a program without '/'.
  std::vector<std::string> command{};
  Duration timeout = std::chrono::seconds(30);  // for one run; then its process group is killed
  std::size_t processes_max = 4;                // at a time; of one key only one
  // More of our environment variables to pass on, besides PATH, HOME, LANG and TZ.
  std::vector<std::string> environment{};
};

// unavailable: the program is missing or may not be run. rejected: the command is empty.
Status check(const std::vector<std::string>& command);

// The program reads the event from standard input as one JSON object on one line (see
// event_json.h). Its environment has DOVETAIL_EVENT_ID, _TYPE, _KEY, _AGGREGATE_TYPE and _TOPIC,
// and otherwise only what Options names, so that it does not see our passwords. Its standard output
// is dropped. Its exit code is the result:
//   0 done; 65 never, park it; 75 not now, no attempt counts; any other code, or a signal, failed.
// The reason is the last line of its standard error.
//
// At least once: the program may run again for the same event, for example after a crash, and can
// recognise it by the id. When the sink is opened again or destroyed, running programs are killed
// with their process groups. When this process dies, the kernel kills them, but not what they have
// started. After a failed event, nothing of its key runs until the failure is collected. Copies
// each event's bytes once. One thread at a time, and the same one while a program runs.
class CommandSink final : public Sink {
 public:
  CommandSink(Options options, Clock& clock);
  ~CommandSink() override;

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

 private:
  using Item = Submissions<>::Item;
  struct Run {
    Item* item = nullptr;
    std::unique_ptr<Process> process;
    TimePoint started{};
    bool timed_out = false;
  };

  void start_runs();
  bool start_run(Item& item);
  void wait(Duration timeout);
  void kill_late_runs();
  void take_ended_runs();
  Outcome outcome_of(const Run& run);
  void resolve(Item& item, Outcome outcome);
  void give_up(Error error);

  Options options_;
  Clock& clock_;
  std::string program_;  // its path, as found by open()
  Submissions<> submitted_;
  std::deque<Item*> waiting_;
  std::list<Run> runs_;
  std::unordered_set<std::uint64_t> running_keys_;
  FailedKeys failed_;
  std::uint32_t put_off_ = 0;     // "not now" results since the last other result
  std::optional<Error> trouble_;  // no more programs are started
};

}  // namespace dovetail::command
