// Messages of the WAL stream are parsed without reading beyond their end, and the parts lie inside
// them; rows become events, whatever they contain.
#include "postgres/stream/pgoutput.h"

#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "postgres/outbox/snapshot.h"
#include "postgres/stream/rows.h"
#include "postgres/testing/test_pgoutput.h"

using namespace dovetail;
using namespace dovetail::postgres;

namespace {

bool lies_within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// Knows the rows of one stream.
struct Stream {
  std::unique_ptr<WalRows> rows = outbox_rows();
  pgoutput::Begin begin{};
  Batch batch{};
  std::string_view bytes{};

  void take(const pgoutput::Begin& begun, const std::vector<pgoutput::Value>&) { begin = begun; }
  void take(const pgoutput::Commit&, const std::vector<pgoutput::Value>&) {}
  void take(const pgoutput::Other&, const std::vector<pgoutput::Value>&) {}
  void take(const pgoutput::Relation& relation, const std::vector<pgoutput::Value>&) {
    FUZZ_REQUIRE(lies_within(relation.schema, bytes) && lies_within(relation.name, bytes));
    for (const auto& column : relation.columns) FUZZ_REQUIRE(lies_within(column.name, bytes));
    const Status described = rows->describe(relation);
    FUZZ_REQUIRE(described || described.error().code == Errc::rejected);
  }
  void take(const pgoutput::Insert& insert, const std::vector<pgoutput::Value>& values) {
    for (const auto& value : values) FUZZ_REQUIRE(lies_within(value.bytes, bytes));
    const std::size_t before = batch.size();
    const Status appended = rows->append(insert.relation, values, begin, batch);
    FUZZ_REQUIRE(appended ? batch.size() == before + 1 : appended.error().code == Errc::corrupt);
  }
  void take(const pgoutput::Message& message, const std::vector<pgoutput::Value>&) {
    FUZZ_REQUIRE(lies_within(message.prefix, bytes) && lies_within(message.content, bytes));
  }
};

}  // namespace

// Each message follows its size in two bytes.
void check_input(std::string_view input) {
  if (const auto snapshot = Snapshot::parse(input)) {
    FUZZ_REQUIRE(snapshot->shows(snapshot->xmin() - 1) && !snapshot->shows(snapshot->xmax()));
  }
  Stream stream;
  std::vector<pgoutput::Value> values;
  while (input.size() >= 2) {
    const std::size_t size = read_big_endian<std::uint16_t>(input.data());
    // In its own memory, so that a read beyond its end is seen.
    const std::string copy(input.substr(2, size));
    input.remove_prefix(std::min(input.size(), 2 + size));
    const auto data = parse_copy_data(copy);
    if (!data) {
      FUZZ_REQUIRE(data.error().code == Errc::corrupt && !data.error().text.empty());
      continue;
    }
    const WalData* wal = std::get_if<WalData>(&*data);
    if (wal == nullptr) continue;
    stream.bytes = wal->body;
    const auto decoded = pgoutput::decode(wal->body, values);
    if (!decoded) {
      FUZZ_REQUIRE(decoded.error().code == Errc::corrupt && values.empty());
      continue;
    }
    std::visit([&](const auto& message) { stream.take(message, values); }, *decoded);
  }
  for (const Event& event : stream.batch.events()) {
    FUZZ_REQUIRE(!event.defect.empty() ||
                 event.key_hash == key_hash(event.aggregate_type, event.aggregate_id));
  }
}

std::vector<std::string_view> seed_inputs() {
  using Form = pgoutput::Value::Form;
  static const std::string stream = [] {
    const std::vector<std::string> columns = {
        "id",           "seq",     "topic",   "aggregate_type",    "aggregate_id", "type",
        "content_type", "headers", "payload", "aggregate_version", "created_at"};
    std::vector<pgoutput::Value> binary(11, {Form::binary, "12345678"});
    binary[0].bytes = "0123456789abcdef";
    std::vector<pgoutput::Value> text(11, {Form::text, "12345678"});
    text[0].bytes = "01890a5d-ac96-774b-bcce-b302099a8057";
    text[8].bytes = "\\x0042";
    text[10].bytes = "2023-11-14 22:13:20.123456+00";
    std::string out;
    for (const std::string& body :
         {begin_bytes(5, 6, 7), relation_bytes(42, "dovetail", "outbox", columns),
          insert_bytes(42, binary), insert_bytes(42, text),
          message_bytes(true, 99, kProbePrefix, "content"), commit_bytes(5, 6, 7)}) {
      const std::string data = wal_data_bytes(1, 2, body);
      append_big_endian(out, static_cast<std::uint16_t>(data.size()));
      out += data;
    }
    const std::string keepalive = keepalive_bytes(3, true);
    append_big_endian(out, static_cast<std::uint16_t>(keepalive.size()));
    return out + keepalive;
  }();
  return {stream, "5:9:5,7", ""};
}
