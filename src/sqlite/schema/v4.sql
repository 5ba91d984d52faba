-- Version 4 of dovetail's tables in a SQLite file: HTTP requests that are applied once.

-- One row for each request that carried an idempotency key. `scope` says whose key it is: a service and its client.
-- `status` is 0 until it is finished. Who holds `token` runs it until `lease_expires`, which counts in boot time beside
-- the id of the boot; afterwards nobody knows what became of it.
CREATE TABLE dovetail_request (
  scope         TEXT NOT NULL CHECK (length(CAST(scope AS BLOB)) <= 255),
  key           TEXT NOT NULL CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 255),
  fingerprint   BLOB NOT NULL,
  token         BLOB NOT NULL CHECK (length(token) = 16),
  attempts      INTEGER NOT NULL DEFAULT 1,
  lease_expires INTEGER NOT NULL,
  lease_boot    TEXT NOT NULL,
  status        INTEGER NOT NULL DEFAULT 0,
  headers       TEXT NOT NULL DEFAULT '',
  body          BLOB NOT NULL DEFAULT x'',
  created_at    INTEGER NOT NULL,
  finished_at   INTEGER NOT NULL DEFAULT 0,
  expires_at    INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX dovetail_request_expiry ON dovetail_request (expires_at);

UPDATE dovetail_schema SET version = 4;
