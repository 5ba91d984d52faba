#include "console/jobs/jobs.h"

#include <atomic>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/errand.h"
#include "host/host.h"

namespace dovetail::console {

std::string_view to_string(JobView::State state) {
  switch (state) {
    case JobView::State::running:
      return "running";
    case JobView::State::done:
      return "done";
    case JobView::State::failed:
      return "failed";
    case JobView::State::stopped:
      break;
  }
  return "stopped";
}

struct Jobs::Job {
  mutable std::mutex mutex{};
  JobView view{};
  std::atomic<bool> must_stop{false};

  JobView seen() const {
    const std::lock_guard lock(mutex);
    return view;
  }
};

Jobs::~Jobs() {
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) job->must_stop = true;
}

void Jobs::run(Job& job, const Work& work, Clock& clock) {
  Result<JobProduct> product = fail(Errc::failed, "internal error");
  try {
    product = work([&job](JobProgress progress) {
      const std::lock_guard lock(job.mutex);
      job.view.progress = std::move(progress);
      return !job.must_stop;
    });
  } catch (const std::exception& error) {
    product =
        fail(Errc::failed, std::string("internal error: ") + error.what() + "; please report it");
  }
  const std::lock_guard lock(job.mutex);
  job.view.ended_at = clock.wall();
  if (product) {
    job.view.product = std::move(*product);
    job.view.state = JobView::State::done;
    return;
  }
  const bool is_stopped = product.error().code == Errc::stopped;
  job.view.state = is_stopped ? JobView::State::stopped : JobView::State::failed;
  if (!is_stopped) job.view.error = product.error().text;
}

std::optional<std::string> Jobs::begin(const std::string& by, const app::Json& asked, Work work) {
  const std::lock_guard lock(mutex_);
  if (!jobs_.empty() && jobs_.front()->seen().state == JobView::State::running) return std::nullopt;
  const auto job = std::make_shared<Job>();
  job->view.id = new_event_id().to_string();
  job->view.by = by;
  job->view.asked = std::make_shared<const app::Json>(asked);
  job->view.started_at = clock_.wall();
  run_errand([job, work = std::move(work), &clock = clock_] { run(*job, work, clock); });
  jobs_.push_front(job);
  while (jobs_.size() > kKept) jobs_.pop_back();
  return job->view.id;
}

std::optional<JobView> Jobs::find(std::string_view id) const {
  for (JobView& view : all())
    if (view.id == id) return std::move(view);
  return std::nullopt;
}

std::deque<JobView> Jobs::all() const {
  const std::lock_guard lock(mutex_);
  std::deque<JobView> views;
  for (const auto& job : jobs_) views.push_back(job->seen());
  return views;
}

bool Jobs::stop(std::string_view id) {
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->seen().id != id) continue;
    job->must_stop = true;
    return true;
  }
  return false;
}

}  // namespace dovetail::console
