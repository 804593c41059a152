"""What every client stands on: who it is, routes, connections to name servers and brokers, typed requests on them."""
