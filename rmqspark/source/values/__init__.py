"""What bodies become: Arrow columns, as they are or parsed as a schema asks, and where those go that do not parse."""
