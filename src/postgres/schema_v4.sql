-- Version 4 of dovetail's tables in a PostgreSQL database: HTTP requests that are applied once.

UPDATE dovetail.schema_version SET version = 4;
