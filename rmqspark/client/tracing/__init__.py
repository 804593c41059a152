"""The way of one message, told by everybody who knows a part of it."""
