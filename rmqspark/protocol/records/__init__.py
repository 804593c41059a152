"""Records: how messages lie in the log and travel, one and thousands at once."""
