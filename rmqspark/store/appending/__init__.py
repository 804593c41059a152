"""Messages on their way in: given their places, written once, and handed on to what is derived from the log."""
