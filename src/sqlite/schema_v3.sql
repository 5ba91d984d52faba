-- Version 3 of dovetail's tables in a SQLite file: claims of events whose effects happen outside the file.
UPDATE dovetail_schema SET version = 3;
