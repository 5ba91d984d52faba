#include "postgres/stream/rows.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/event/name_id.h"
#include "postgres/connection/byte_order.h"
#include "postgres/stream/values.h"

namespace dovetail::postgres {

namespace {

using pgoutput::Begin;
using pgoutput::Value;

enum Field : std::size_t {
  kId,
  kSeq,
  kTopic,
  kAggregateType,
  kAggregateId,
  kType,
  kContentType,
  kHeaders,
  kPayload,
  kAggregateVersion,
  kCreatedAt,
  kFields,
};
constexpr std::array<std::string_view, kFields> kNames = {
    "id",           "seq",     "topic",   "aggregate_type",    "aggregate_id", "type",
    "content_type", "headers", "payload", "aggregate_version", "created_at"};

// The indexes of event fields in a table's rows.
struct Table {
  std::uint32_t relation = 0;
  std::size_t columns = 0;
  std::array<std::size_t, kFields> at{};
};

// A name that parking accepts, for an event without a readable one.
constexpr std::string_view kUnreadable = "unreadable";

class OutboxRows final : public WalRows {
 public:
  Status describe(const pgoutput::Relation& relation) override {
    Table table;
    table.relation = relation.id;
    table.columns = relation.columns.size();
    for (std::size_t field = 0; field < kFields; ++field) {
      const auto found =
          std::find_if(relation.columns.begin(), relation.columns.end(),
                       [&](const auto& column) { return column.name == kNames[field]; });
      if (found == relation.columns.end())
        return fail(Errc::rejected,
                    "the WAL has no column " + std::string(kNames[field]) + " of the table " +
                        std::string(relation.schema) + "." + std::string(relation.name) +
                        "; check the table, and that its publication has no list of columns");
      table.at[field] = static_cast<std::size_t>(found - relation.columns.begin());
    }
    std::erase_if(tables_, [&](const Table& other) { return other.relation == relation.id; });
    tables_.push_back(table);
    return {};
  }

  Status append(std::uint32_t relation, std::span<const Value> values, const Begin& transaction,
                Batch& out) override {
    const auto table = std::find_if(tables_.begin(), tables_.end(),
                                    [&](const Table& one) { return one.relation == relation; });
    if (table == tables_.end() || table->columns != values.size())
      return fail(Errc::corrupt,
                  "the server sent a row that does not match its description of the table; check "
                  "that it is "
                  "PostgreSQL and that its slot uses pgoutput");
    count_row(transaction);
    add_row(*table, values, transaction, out);
    last_position_ = out.events().back().position;
    return {};
  }

 private:
  // The same at each read of this part of the WAL.
  static EventId place_id(WalPosition position, std::uint64_t number) {
    return name_id(kMessageNames,
                   "postgres/row/" + to_string(position) + '/' + std::to_string(number));
  }

  void count_row(const Begin& transaction) {
    if (transaction.commit != counted_in_) rows_in_transaction_ = 0;
    counted_in_ = transaction.commit;
    ++rows_in_transaction_;
  }

  void add_row(const Table& table, std::span<const Value> values, const Begin& transaction,
               Batch& out) {
    const auto value = [&](Field field) -> const Value& { return values[table.at[field]]; };
    std::optional<Field> unreadable;
    const auto or_else = [&](Field field, const auto& read, auto otherwise) {
      if (read) return *read;
      unreadable = field;
      return otherwise;
    };
    const auto text = [&](Field field, std::string_view otherwise) {
      return or_else(field, text_of(value(field)), otherwise);
    };
    Event event;
    const std::optional<EventId> id = uuid_of(value(kId));
    event.id = or_else(kId, id, id ? *id : place_id(transaction.commit, rows_in_transaction_));
    event.position = or_else(kSeq, integer_of(value(kSeq)), last_position_);
    event.topic = text(kTopic, "");
    event.aggregate_type = text(kAggregateType, kUnreadable);
    event.aggregate_id = text(kAggregateId, "");
    event.type = text(kType, kUnreadable);
    event.content_type = text(kContentType, "application/octet-stream");
    event.headers = text(kHeaders, "");
    event.aggregate_version =
        or_else(kAggregateVersion, integer_of(value(kAggregateVersion)), std::int64_t{0});
    // A time is for people and for ages: another date style is no reason to park.
    event.created_at = time_of(value(kCreatedAt)).value_or(transaction.committed_at);
    const bool is_binary = value(kPayload).form == Value::Form::binary;
    event.payload = or_else(kPayload, bytea_of(value(kPayload), out.arena()), std::string_view());
    std::string defect;
    if (unreadable)
      defect = "the column " + std::string(kNames[*unreadable]) +
               " of the row is unreadable; check the types of the outbox's columns";
    event.defect = defect;
    if (is_binary) {
      out.append(event);
    } else {
      adopt_texts(event, out);
    }
  }

  // The payload is in the arena already.
  static void adopt_texts(Event event, Batch& out) {
    for (auto field : {&Event::topic, &Event::aggregate_type, &Event::aggregate_id, &Event::type,
                       &Event::content_type, &Event::headers, &Event::defect})
      event.*field = out.arena().copy(event.*field);
    out.adopt(event);
  }

  std::vector<Table> tables_;
  std::int64_t last_position_ = 0;
  WalPosition counted_in_{};
  std::uint64_t rows_in_transaction_ = 0;
};

}  // namespace

std::unique_ptr<WalRows> outbox_rows() { return std::make_unique<OutboxRows>(); }

}  // namespace dovetail::postgres
