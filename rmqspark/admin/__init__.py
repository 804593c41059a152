"""REST, metrics of the whole cluster, console."""
