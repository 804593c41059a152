"""The headers of commands: a struct for each, in a file per family, so that each process imports what it speaks."""
