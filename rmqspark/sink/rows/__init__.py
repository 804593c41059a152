"""Rows of Arrow batches: what of them is checked, counted, hashed and compressed before anything is sent."""
