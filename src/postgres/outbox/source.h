// Reads dovetail.outbox by snapshot windows, in commit order along each key.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "postgres/lane/reader.h"
#include "postgres/outbox/progress_row.h"
#include "postgres/outbox/windows.h"

namespace dovetail::postgres {

struct SourceOptions {
  // For operators, such as a restore into another cluster.
  std::function<void(std::string_view)> log = [](std::string_view) {};
  // Performance: the wait before the next look while events come, and the longest wait.
  Duration poll_min = std::chrono::milliseconds(1);
  Duration poll_max = std::chrono::milliseconds(25);
};

// A window is what is visible now and was not visible in the previous snapshot. A small window
// comes in one statement; a large one comes in pages by seq between the same two snapshots. So a
// late commit is never skipped, and a long transaction delays nobody. The outbox is not written.
// Progress is one small row, written without fsync: a crash of the server repeats events and loses
// none.
class PostgresSource final : public Windows {
 public:
  PostgresSource(Reader& reader, Clock& clock, SourceOptions options = {});

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  // stopped: another relay has taken the lane.
  Status flush() override;
  Receipt* receipt() override { return &progress_.receipt(); }

  Progress& progress() override { return progress_; }
  bool is_between_windows() const override { return at().now.empty(); }
  Status end_at(const std::string& snapshot) override;
  bool has_ended() const override { return ends_ && is_between_windows(); }
  void go_on() override { ends_ = false; }
  // Releases delayed events that are due.
  Status do_chores() override;

 private:
  const TablePosition& at() const { return progress_.read_to(); }
  Status load_progress();
  Status adopt_foreign_rows();
  Status read_now(Batch& out, const Limits& limits);
  Result<bool> something_ended();
  Status read_window(Batch& out, const Limits& limits);
  Status open_window(const std::string& now);
  Status read_page(Batch& out, const Limits& limits);
  Status ask_for_page(const Limits& limits);
  Result<TablePosition> behind_window(std::int64_t passed) const;
  void move_to(TablePosition to, std::size_t events);

  Reader& reader_;
  Clock& clock_;
  SourceOptions options_;
  ProgressRow row_;
  Progress progress_{true};
  std::int64_t window_end_ = 0;  // the last seq of the open window
  std::string exhausted_{};      // the snapshot in which everything was read
  bool delayed_are_due_ = false;
  bool ends_ = false;  // the current or last window is the end
  Duration pause_{0};
  TimePoint look_again_at_{};
  TimePoint look_for_delayed_at_{};
  // The page asked of the server: after which number, up to which number, and how many events and
  // bytes.
  struct Asked {
    TablePosition from{};
    std::int64_t events = 0;
    std::int64_t bytes_max = 0;
    std::int64_t upto = 0;
  };
  std::optional<Asked> asked_{};
  // Estimates for a page: how many events fit, and how many sequence numbers they
  // cover.
  std::size_t page_events_ = std::numeric_limits<std::size_t>::max();
  std::int64_t span_ = 0;
};

}  // namespace dovetail::postgres
