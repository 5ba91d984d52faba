-- Version 9: what relays say about themselves.

UPDATE dovetail.schema_version SET version = 9;
