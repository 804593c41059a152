"""Who may do what: users, their rights, and the guard before a server's handlers (RocketMQ's ACL 2.0)."""
