// Events, parked events and the audit, as commands print them for programs and the API says them.
#pragma once

#include <string>

#include "commands/output.h"
#include "config/config.h"
#include "core/operations.h"

namespace dovetail::app {

// "unread", too: no relay has read it.
std::string state_of(const EventRow& row);
Json json_of(const config::StoreConfig& store, SourceKind source, const EventRow& row);

// One parked event and where it is.
struct ParkedPlace {
  const config::StoreConfig* store;
  ParkedRow row;
};
Json json_of(const ParkedPlace& place);

Json json_of(const config::StoreConfig& store, const AuditRow& row);

// As text, or as base64 if it is no UTF-8.
void add_payload(Json& document, const std::string& payload);

}  // namespace dovetail::app
