-- What write-ahead logs have lost: one row each time that a collector found one that was not whole.
CREATE TABLE wal_losses (
    found_time_unix_nano BIGINT NOT NULL,
    reason VARCHAR NOT NULL,                     -- torn: it ended in a transaction, as a kill leaves it and
                                                 -- before anybody was told that it is stored; damaged: its
                                                 -- bytes were not what was written; refused: DuckDB could not
                                                 -- read it
    lost_bytes BIGINT NOT NULL,                  -- of log, about 2.7 KB a span; how many rows nobody can say
    kept_bytes BIGINT NOT NULL,                  -- of log, before the damage
    file VARCHAR                                 -- the log as it was found; NULL where nothing was damaged
);
