-- Version 8: roles: publisher, worker, relay, operator.

UPDATE dovetail.schema_version SET version = 8;
