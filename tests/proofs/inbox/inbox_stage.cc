#include "proofs/inbox/inbox_stage.h"

#include <algorithm>
#include <fstream>

#include "kit/eventually.h"
#include "kit/results.h"
#include "postgres/connection/connection.h"
#include "postgres/operate/admin.h"
#include "proofs/inbox/postgres_stock.h"

namespace dovetail::shop {

bool Outcome::is_once() const {
  const auto count = static_cast<std::int64_t>(orders.size());
  return verdict.ok() && sums_agree && told == count && known == count && parked == 0;
}

void claim_once(const Outcome& outcome, const std::string& what) {
  live::claim(outcome.is_once(),
              "%s: %zu orders: %zu lost, %zu double effects, %zu out of order, %zu made up, %zu "
              "parked, %lld told, %lld remembered",
              what.c_str(), outcome.orders.size(), outcome.verdict.lost, outcome.verdict.doubled,
              outcome.verdict.reordered, outcome.verdict.phantom, outcome.parked,
              static_cast<long long>(outcome.told), static_cast<long long>(outcome.known));
  for (const std::string& example : outcome.verdict.examples) ADD_FAILURE() << example;
}

InboxStage::InboxStage(std::string orders_conninfo, std::string stock_conninfo)
    : orders(std::move(orders_conninfo)), stock(std::move(stock_conninfo)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "dovetail-inbox-XXXXXX").string();
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  Status made = open_postgres_order_books(orders);
  EXPECT_TRUE(made) << text_of(made);
  made = open_postgres_stock_books(stock);
  EXPECT_TRUE(made) << text_of(made);
}

InboxStage::~InboxStage() {
  if (!testing::Test::HasFailure()) std::filesystem::remove_all(folder_);
}

std::jthread InboxStage::place_orders(OrderServiceOptions options) const {
  options.database = orders;
  return std::jthread([options](std::stop_token stop) mutable {
    options.stop = stop;
    const Status placed = run_postgres_order_service(options);
    EXPECT_TRUE(placed) << text_of(placed);
  });
}

Process InboxStage::start(std::vector<std::string> words, const std::string& log) const {
  return start_from(seen_as(orders), std::move(words), log);
}

Process InboxStage::start_from(const std::string& from, std::vector<std::string> words,
                               const std::string& log) const {
  const std::vector<std::string> first = {DOVETAIL_DYING_CONSUMER, from, seen_as(stock), "--fix",
                                          file("handler_is_mended")};
  words.insert(words.begin(), first.begin(), first.end());
  return Process::start(words, file(log));
}

bool InboxStage::wait_until(const std::string& what, const std::function<bool()>& condition) const {
  if (eventually(condition, patience())) return true;
  ADD_FAILURE() << "gave up waiting until " << what << "; see " << folder_;
  return false;
}

bool InboxStage::drained(bool with_parked) const {
  const auto status = postgres::status(orders);
  if (!status || status->lanes.empty()) return false;
  return std::all_of(status->lanes.begin(), status->lanes.end(), [&](const auto& lane) {
    return lane.pending == 0 && (!with_parked || lane.parked + lane.waiting == 0);
  });
}

std::chrono::seconds InboxStage::patience() {
  return std::chrono::seconds(live::is_long() ? 900 : 120);
}

void InboxStage::end_lease() const {
  auto connection = postgres::Connection::open(orders);
  ASSERT_TRUE(connection) << text_of(connection);
  const Status ended =
      connection->execute("UPDATE dovetail.relay_lane SET expires = clock_timestamp()");
  ASSERT_TRUE(ended) << text_of(ended);
}

void InboxStage::mend_the_handler() const {
  std::ofstream(file("handler_is_mended")) << "yes\n";
  auto connection = postgres::Connection::open(orders);
  ASSERT_TRUE(connection) << text_of(connection);
  const auto going =
      connection->query("SELECT dovetail.replay_parked('', NULL, '', '', '', '', '')");
  EXPECT_TRUE(going) << text_of(going);
}

Outcome InboxStage::judge() const {
  Outcome outcome;
  Books books;
  Status read = read_postgres_order_books(orders, books);
  if (read) read = read_postgres_stock_books(stock, books, outcome.told);
  EXPECT_TRUE(read) << text_of(read);
  outcome.sums_agree = books.quantity_ordered == books.stock_taken;
  outcome.verdict = compare_books(books.orders, books.movements);
  outcome.orders = std::move(books.orders);
  outcome.movements = std::move(books.movements);
  outcome.known = count_postgres_inbox(stock);
  // Events from a broker are parked in the consumer's database.
  for (const std::string& database : {orders, stock}) {
    const auto parked = postgres::list_parked(database, {});
    EXPECT_TRUE(parked) << text_of(parked);
    outcome.parked += parked ? parked->size() : 0;
  }
  return outcome;
}

std::size_t InboxStage::lines(const std::string& begin, const std::string& log) const {
  std::ifstream in(file(log));
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) count += line.starts_with(begin) ? 1 : 0;
  return count;
}

}  // namespace dovetail::shop
