"""Shipped for tests: the real broker in process, pytest fixtures, a file system that can crash, a manual clock."""
