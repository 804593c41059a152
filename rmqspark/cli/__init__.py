"""The command line rmq."""
