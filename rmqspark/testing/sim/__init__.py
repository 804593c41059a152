"""The whole server in one thread, on a clock, a wire and disks that follow from a seed (docs/reliability.md)."""
