"""Reading a store's files beside its broker, or without one: no lock, no write, nothing believed unchecked."""
