-- Version 6: the outbox source: no events in the log alone, proof that the server did not crash, delayed events.

-- Part 1: every event is a row. What stood in the log alone was lost with its slot.
DROP FUNCTION
  dovetail.emit(text, text, text, bytea, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, jsonb, jsonb, text, uuid, bigint, text),
  dovetail.emit(text, text, text, text, jsonb, text, uuid, bigint, text),
  dovetail.emit_event(uuid, text, text, text, text, text, text, bytea, bigint);

UPDATE dovetail.schema_version SET version = 6;
