"""Pulls: what a consumer may have, and those that are held until there is something to answer."""
