"""One file per request family; each names the codes it answers."""
