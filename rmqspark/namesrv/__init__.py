"""The name server: a route table and the requests that read and change it."""
