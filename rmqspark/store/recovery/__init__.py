"""Opening a store after whatever the last run left."""
