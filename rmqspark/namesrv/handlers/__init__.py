"""Handlers of the name server, one file per request family."""
