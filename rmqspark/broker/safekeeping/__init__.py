"""When what was appended is as safe as promised, and when it may go."""
