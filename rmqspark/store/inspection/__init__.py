"""Looking at a store without touching it: what is in it, and what is broken."""
