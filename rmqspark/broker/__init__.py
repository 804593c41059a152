"""The broker: a composition root and one handler file per request family."""
