// An application's own table beside the outbox: a trigger copies every event into it in the same
// transaction, so the copies come in all forms that the writers use.
#pragma once

#include "postgres/mapped/table.h"

namespace dovetail::shop {

inline constexpr const char* kMakeCopiedTable =
    "CREATE TABLE public.copied (id uuid PRIMARY KEY, seq bigint, kind text, key text, version "
    "bigint, type text, payload bytea); "
    "CREATE FUNCTION public.copy_event() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "INSERT INTO public.copied VALUES (NEW.id, NEW.seq, NEW.aggregate_type, NEW.aggregate_id, "
    "NEW.aggregate_version, NEW.type, NEW.payload); "
    "IF TG_ARGV[0] = 'deleted' THEN DELETE FROM public.copied WHERE id = NEW.id; END IF; "
    "RETURN NULL; END $$; ";

// The mapping that reads it from the WAL.
inline postgres::TableMapping copied_mapping() {
  postgres::TableMapping mapping;
  mapping.table = "public.copied";
  mapping.aggregate_type = "kind";
  mapping.aggregate_id = "key";
  mapping.aggregate_version = "version";
  mapping.type = "type";
  mapping.order_by = "seq";
  mapping.from_wal = true;
  return mapping;
}

}  // namespace dovetail::shop
