-- Version 6 of dovetail's tables in a SQLite file: what the inbox remembers of an event.

UPDATE dovetail_schema SET version = 6;
