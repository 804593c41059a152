"""Connections that are encrypted: what both ends of one share, then the client's end, then the server's."""
