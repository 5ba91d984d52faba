-- Version 6: the outbox source: no events in the log alone, proof that the server did not crash, delayed events.

UPDATE dovetail.schema_version SET version = 6;
