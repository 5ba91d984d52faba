// Reads the server's WAL as a relay would, for a moment.
#include <array>
#include <chrono>
#include <thread>
#include <variant>

#include "core/event/sha256.h"
#include "host/host.h"
#include "postgres/doctor/checks.h"
#include "postgres/stream/pgoutput.h"
#include "postgres/stream/replication.h"
#include "postgres/stream/rows.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;
using Deadline = std::chrono::steady_clock::time_point;

constexpr Duration kLookAgain = std::chrono::milliseconds(5);
constexpr int kHasMessages = 140'000;  // the version since which messages are streamed

constexpr Check kNoProof{
    [](F f) { return f.is("is_required") ? Severity::error : Severity::warning; }, "log-proof",
    nullptr, "{problem}", "{error}"};
constexpr Check kLateProof{
    Severity::warning, "log-proof", nullptr,
    "a test of the WAL failed: within {limit:age} {problem}",
    "check for long open transactions and the load of the server; then run doctor again"};

std::string random_text() {
  std::array<std::uint8_t, 16> bytes{};
  SystemEntropy().fill(bytes);
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool is_over(Deadline end) { return std::chrono::steady_clock::now() >= end; }

void wait_a_little() { std::this_thread::sleep_for(kLookAgain); }

// False: not in time.
Result<bool> make_slot(Replication& replication, const std::string& name, Deadline end) {
  DOVETAIL_TRY(replication.ask_for_slot(name, true, false));
  for (; !is_over(end); wait_a_little()) {
    const auto made = replication.slot_made();
    if (!made) return fail(made.error());
    if (*made) return true;
  }
  return false;
}

Result<bool> is_probe(std::string_view bytes, const std::string& probe) {
  const auto message = parse_copy_data(bytes);
  if (!message) return fail(message.error());
  const auto* data = std::get_if<WalData>(&*message);
  if (data == nullptr) return false;
  std::vector<pgoutput::Value> values;
  const auto decoded = pgoutput::decode(data->body, values);
  if (!decoded) return fail(decoded.error());
  const auto* found = std::get_if<pgoutput::Message>(&*decoded);
  return found != nullptr && found->prefix == kProbePrefix && found->content == probe;
}

Result<bool> see_probe(Replication& replication, const std::string& probe, Deadline end) {
  while (!is_over(end)) {
    const Result<CopyBytes> next = replication.receive();
    if (!next) return fail(next.error());
    if (next->bytes == nullptr) {
      wait_a_little();
      continue;
    }
    const Result<bool> found = is_probe(next->view(), probe);
    if (!found || *found) return found;
  }
  return false;
}

// Empty: it came out. Otherwise what did not happen in time.
Result<std::string> prove(Connection& connection, Replication& replication, Deadline end) {
  const Result<Rows> database = connection.query("SELECT pg_catalog.current_database()::text");
  if (!database) return fail(database.error());
  const std::string slot = temporary_slot_name("doctor", database->text(0, 0));
  const Result<bool> made = make_slot(replication, slot, end);
  if (!made) return fail(made.error());
  if (!*made)
    return std::string("the server created no slot, because it waits for open transactions");
  const std::string probe = random_text();
  const Result<Rows> written =
      connection.query("SELECT pg_catalog.pg_logical_emit_message(false, $1, $2)::text",
                       Params().text(kProbePrefix).text(probe));
  if (!written) return fail(written.error());
  const bool has_messages = replication.server_version() >= kHasMessages;
  StreamRequest request;
  request.slot = slot;
  request.publication = std::string(kOutboxPublication);
  request.messages = has_messages;
  DOVETAIL_TRY(replication.start(request));
  if (!has_messages) return std::string();
  const Result<bool> seen = see_probe(replication, probe, end);
  if (!seen) return fail(seen.error());
  return *seen ? std::string() : std::string("a written message did not come back");
}

}  // namespace

Status prove_wal(Connection& connection, const std::string& conninfo, const DoctorOptions& options,
                 Findings& findings) {
  Facts facts;
  for (const WalReader& reader : options.wal_readers)
    if (reader.is_required()) facts.set("is_required", true);
  const Deadline end = std::chrono::steady_clock::now() + options.proof_wait_max;
  Result<Replication> replication = Replication::open(conninfo);
  if (!replication) {
    findings.add(kNoProof, facts.set("problem", "cannot open a replication connection")
                               .set("error", replication.error().text));
    return {};
  }
  const Result<std::string> failed = prove(connection, *replication, end);
  if (!failed) {
    if (!connection) return fail(failed.error());
    findings.add(kNoProof, facts.set("problem", "a test showed that the WAL cannot be read")
                               .set("error", failed.error().text));
  } else if (!failed->empty()) {
    findings.add(kLateProof, facts.set("limit", options.proof_wait_max).set("problem", *failed));
  }
  return {};
}

}  // namespace dovetail::postgres
