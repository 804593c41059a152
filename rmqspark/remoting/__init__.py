"""Sockets around protocol/: the asyncio server, the async connection, the blocking connection."""
