"""The broker: its parts and the order in which they start, and one handler file per request family."""
