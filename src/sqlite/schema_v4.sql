-- Version 4 of dovetail's tables in a SQLite file: HTTP requests that are applied once.
UPDATE dovetail_schema SET version = 4;
