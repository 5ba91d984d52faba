-- Version 5 of dovetail's tables in a SQLite file: what the inbox does not remember any more.

-- An event that is older than this, by its id of version 7 or else by its created_at, may have been applied. It is
-- raised in the transaction that deletes rows of the inbox. No row is deleted that was applied later than this.
CREATE TABLE dovetail_inbox_state (
  only_row         INTEGER PRIMARY KEY CHECK (only_row = 1),
  forgotten_before INTEGER NOT NULL DEFAULT 0
);
INSERT INTO dovetail_inbox_state (only_row) VALUES (1);
-- Of a consumer that began later, nothing is forgotten. 0: before this was written down.
ALTER TABLE dovetail_consumer ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;

UPDATE dovetail_schema SET version = 5;
