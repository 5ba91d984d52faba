// Turns rows of a mapped table into events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "postgres/connection/connection.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// The columns of statements that read events: MappedStatements::read and gap_page_sql().
enum MappedColumn : int {
  kMappedRowId,
  kMappedEventId,
  kMappedTopic,
  kMappedAggregateType,
  kMappedAggregateId,
  kMappedVersion,
  kMappedType,
  kMappedPayload,
  kMappedHeaders,
  kMappedCreatedAt,
  kMappedOrder,
  kMappedContentType,
  kMappedFirstHeader,
};

// Appends the event of a row to the batch. An event without an id has a defect.
void append_mapped_event(const Rows& rows, std::size_t row, const TableMapping& mapping,
                         std::int64_t position, Batch& out);

// The encoded headers of an event: those in the row, and the columns that become headers. Text that
// is not a flat object passes unchanged: the sink refuses it, and the event is parked with that
// reason instead of losing its headers.
std::string join_headers(std::string_view stored, std::vector<Header> columns);

// The text of a jsonb in header form: an object with text values and without nulls. Other values
// stay as they are.
std::string flat_headers(std::string_view json);

// The id of a row without a uuid: the first 16 bytes of SHA-256 over
// "dovetail:<schema>.<table>:<id>", like event_id_sql().
EventId mapped_event_id(std::string_view schema, std::string_view table, std::string_view id);

}  // namespace dovetail::postgres
