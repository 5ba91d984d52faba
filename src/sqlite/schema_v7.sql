-- Version 7 of dovetail's tables in a SQLite file: what relays say about themselves.

UPDATE dovetail_schema SET version = 7;
