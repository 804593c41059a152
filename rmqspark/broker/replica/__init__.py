"""A broker among its replicas: a master whose slaves are waited for, or a slave that takes over what its master has."""
