-- Version 9 of dovetail's tables in a SQLite file: operators steer relays.

-- What an operator ordered for a relay. '': nothing. 'paused': nobody runs it. 'draining': what is in flight or waits for
-- its next try is delivered, and nothing new is read. 'drained': that has ended, and nobody runs it.
ALTER TABLE dovetail_relay ADD COLUMN hold TEXT NOT NULL DEFAULT ''
  CHECK (hold IN ('', 'paused', 'draining', 'drained'));
ALTER TABLE dovetail_relay ADD COLUMN hold_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dovetail_relay ADD COLUMN hold_by TEXT NOT NULL DEFAULT '';
ALTER TABLE dovetail_relay ADD COLUMN hold_reason TEXT NOT NULL DEFAULT '';
-- Events that the relay passed without delivering them: a filter left them out, or an operator moved it beyond them.
ALTER TABLE dovetail_relay ADD COLUMN skipped_total INTEGER NOT NULL DEFAULT 0;

UPDATE dovetail_schema SET version = 9;
