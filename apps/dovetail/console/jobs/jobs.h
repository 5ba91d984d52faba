// Work that takes too long for one answer. One job runs at a time; the last ones that ended stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "commands/output.h"
#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::console {

struct JobProgress {
  std::string doing{};
  std::uint64_t read = 0;
  std::uint64_t of = 0;  // about; 0: not known
};

// What is left of a job that came to its end.
struct JobProduct {
  std::shared_ptr<const app::Json> document{};
  std::shared_ptr<const std::string> page{};  // for people who keep it
};

struct JobView {
  enum class State : std::uint8_t { running, done, failed, stopped };
  std::string id{};
  std::string by{};  // who started it
  std::shared_ptr<const app::Json> asked{};
  State state = State::running;
  WallTime started_at{};
  std::optional<WallTime> ended_at{};
  JobProgress progress{};
  std::string error{};  // why it failed
  JobProduct product{};
};
std::string_view to_string(JobView::State state);

// Any thread. A job cannot be interrupted: when this ends, it is told to stop, and goes on until it
// asks. So its work owns all that it touches.
class Jobs {
 public:
  static constexpr std::size_t kKept = 5;
  // Work calls it now and then. False: stop.
  using Watch = std::function<bool(JobProgress)>;
  using Work = std::function<Result<JobProduct>(const Watch& watch)>;

  explicit Jobs(Clock& clock) : clock_(clock) {}
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;
  ~Jobs();

  // The id of the new job; empty: another one runs.
  std::optional<std::string> begin(const std::string& by, const app::Json& asked, Work work);
  std::optional<JobView> find(std::string_view id) const;
  std::deque<JobView> all() const;  // the newest first
  // False: there is no such job. One that has ended stays as it is.
  bool stop(std::string_view id);

 private:
  struct Job;
  static void run(Job& job, const Work& work, Clock& clock);

  Clock& clock_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Job>> jobs_;
};

}  // namespace dovetail::console
