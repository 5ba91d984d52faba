#include "proofs/wal/dying_stage.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "kit/claims.h"
#include "kit/eventually.h"
#include "postgres/operate/admin.h"
#include "proofs/wal/copied_table.h"

namespace dovetail::shop {

namespace {

using postgres::number;
using postgres::Rows;

std::filesystem::path new_folder(const std::string& name) {
  std::string pattern = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  return pattern;
}

// Started before the first test and stopped after the last.
class ServerOfItsOwn final : public testing::Environment {
 public:
  void SetUp() override {
    folder_ = new_folder("dovetail-wal-servers");
    ::setenv("DOVETAIL_SERVERS", folder_.c_str(), 1);
    server_ = std::make_unique<servers::Started>("postgres", folder_.string());
    ASSERT_FALSE(server_->server().conninfo.empty()) << server_->server().missing;
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<servers::Started> server_;
};

const auto* const kServer = testing::AddGlobalTestEnvironment(new ServerOfItsOwn);

}  // namespace

void claim_whole(const WalOutcome& outcome, const std::string& what) {
  live::claim(outcome.ok() && outcome.committed > 0,
              "%s: %zu committed: %zu lost, %zu phantom, %zu inverted, %zu damaged, %llu repeated",
              what.c_str(), outcome.committed, outcome.lost, outcome.phantom, outcome.inverted,
              outcome.damaged, static_cast<unsigned long long>(outcome.repeated));
}

WalStage::WalStage()
    : folder_(new_folder("dovetail-wal")),
      connection_(database_.connect()),
      book_((folder_ / "book").string()) {
  const Status made = open_accounts(database_.conninfo, kKeys);
  EXPECT_TRUE(made) << text_of(made);
}

WalStage::~WalStage() {
  if (!testing::Test::HasFailure()) std::filesystem::remove_all(folder_);
}

void WalStage::copy_into_table(bool deleted) {
  has_copies_ = true;
  postgres::must(connection_, std::string(kMakeCopiedTable) +
                                  "CREATE TRIGGER copies AFTER INSERT ON dovetail.outbox FOR EACH "
                                  "ROW EXECUTE FUNCTION public.copy_event(" +
                                  (deleted ? "'deleted'" : "") + ")");
}

Process WalStage::start(std::vector<std::string> words, const std::string& log) const {
  const std::vector<std::string> first = {DOVETAIL_DYING_RELAY, database_.conninfo, file("book")};
  words.insert(words.begin(), first.begin(), first.end());
  return Process::start(words, file(log));
}

WalWritersOptions WalStage::writers(std::uint64_t seed) const {
  WalWritersOptions options;
  options.conninfo = database_.conninfo;
  options.keys = kKeys;
  options.seed = seed;
  return options;
}

bool WalStage::wait_until(const std::string& what, const std::function<bool()>& condition) const {
  if (eventually(condition, patience())) return true;
  ADD_FAILURE() << "gave up waiting until " << what << "; see " << folder_;
  return false;
}

void WalStage::end_lease() {
  postgres::must(connection_, "UPDATE dovetail.relay_lane SET expires = clock_timestamp()");
}

void WalStage::drop_slots() {
  wait_until("no slot is there", [this] {
    postgres::must(connection_,
                   "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                   "WHERE database = current_database() AND NOT active");
    return number(connection_,
                  "SELECT count(*) FROM pg_replication_slots WHERE database = "
                  "current_database()") == 0;
  });
}

bool WalStage::is_delivered() {
  book_.read_on();
  return static_cast<std::int64_t>(book_.first().size()) >=
         number(connection_, "SELECT count(*) FROM dovetail.outbox");
}

bool WalStage::is_behind(postgres::Connection& connection, std::int64_t events) {
  book_.read_on();
  return number(connection, "SELECT count(*) FROM dovetail.outbox") >
         static_cast<std::int64_t>(book_.first().size()) + events;
}

bool WalStage::is_streaming() {
  return number(connection_,
                "SELECT count(*) FROM pg_replication_slots AS s JOIN pg_stat_replication AS r "
                "ON r.pid = s.active_pid WHERE s.database = current_database() "
                "AND r.state IN ('catchup', 'streaming')") > 0;
}

bool WalStage::is_drained() const {
  postgres::MappedRelays mapped;
  if (has_copies_) mapped.emplace("dying", copied_mapping());
  const auto status = postgres::status(database_.conninfo, mapped);
  if (!status || status->lanes.empty()) return false;
  return std::all_of(status->lanes.begin(), status->lanes.end(),
                     [](const auto& lane) { return lane.pending == 0; });
}

void WalStage::finish(const std::vector<std::string>& words) {
  Process last = start(words);
  wait_until("nothing is left", [this] { return is_drained(); });
  last.send(SIGTERM);
  EXPECT_EQ(last.wait(patience()), 0) << "see " << file("relay.log");
}

WalOutcome WalStage::judge() {
  book_.read_on();
  WalOutcome outcome;
  const Result<Rows> rows = connection_.query("SELECT id FROM dovetail.outbox");
  EXPECT_TRUE(rows) << text_of(rows);
  if (!rows) return outcome;
  std::set<EventId> committed;
  for (std::size_t row = 0; row < rows->size(); ++row) committed.insert(rows->uuid(row, 0));
  std::map<std::string, std::int64_t> last;
  std::size_t delivered = 0;
  for (const Delivery& one : book_.first()) {
    (committed.contains(one.id) ? delivered : outcome.phantom) += 1;
    outcome.inverted += one.version == last[one.key] + 1 ? 0 : 1;
    outcome.damaged += one.intact ? 0 : 1;
    last[one.key] = one.version;
  }
  outcome.committed = committed.size();
  outcome.lost = committed.size() - delivered;
  outcome.repeated = book_.repeated();
  return outcome;
}

std::size_t WalStage::lines(const std::string& begin, const std::string& log) const {
  std::ifstream in(file(log));
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) count += line.starts_with(begin) ? 1 : 0;
  return count;
}

std::chrono::seconds WalStage::patience() {
  return std::chrono::seconds(live::is_long() ? 600 : 120);
}

}  // namespace dovetail::shop
