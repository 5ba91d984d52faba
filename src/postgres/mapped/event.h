// From a row of a mapped table to an event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "postgres/connection/connection.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// Columns of statements that read events: MappedStatements::read and gap_page_sql().
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

// Appends the event of a row to the batch; one without an id has a defect.
void append_mapped_event(const Rows& rows, std::size_t row, const TableMapping& mapping,
                         std::int64_t position, Batch& out);

// Encoded headers of an event: those that the row holds, and its columns that travel as headers of
// their own. What is no flat object goes on as it is: the sink refuses it, and the event is parked
// with that reason instead of losing its headers.
std::string join_headers(std::string_view stored, std::vector<Header> columns);

// The text of a jsonb as headers are: an object whose values are texts, without nulls; what is no
// object stays as it is.
std::string flat_headers(std::string_view json);

// Of a row whose id is no uuid: from the first 16 bytes of SHA-256 over
// "dovetail:<schema>.<table>:<id>", as event_id_sql() has it.
EventId mapped_event_id(std::string_view schema, std::string_view table, std::string_view id);

}  // namespace dovetail::postgres
