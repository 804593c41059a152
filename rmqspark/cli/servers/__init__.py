"""`rmq namesrv`, `rmq broker` and `rmq admin`, a server in the foreground each: settings, open files, signals."""
