-- Version 7: the inbox: what it remembers and forgets.

UPDATE dovetail.schema_version SET version = 7;
