"""Messages as text, as rows of files, and on their way to brokers."""
