-- Version 3 of dovetail's tables in a SQLite file: claims of events whose effects happen outside the file.

-- Numbers every claim, so that one which was lost is told from the one that took its place.
CREATE TABLE dovetail_claim_epoch (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  last     INTEGER NOT NULL
);
INSERT INTO dovetail_claim_epoch (only_row, last) VALUES (1, 0);

-- Claims that are held, or were given back with attempts that count (`epoch` is 0 then); one that is completed becomes a
-- row of the inbox. `lease_expires` counts in boot time beside the id of the boot.
CREATE TABLE dovetail_claim (
  consumer_id   INTEGER NOT NULL,
  event_id      BLOB NOT NULL CHECK (length(event_id) = 16),
  epoch         INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,
  lease_expires INTEGER NOT NULL,
  lease_boot    TEXT NOT NULL,
  updated_at    INTEGER NOT NULL,
  PRIMARY KEY (consumer_id, event_id)
) WITHOUT ROWID;

UPDATE dovetail_schema SET version = 3;
