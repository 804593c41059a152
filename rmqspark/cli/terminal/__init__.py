"""What all verbs have in common: the words of a command line, whom they mean, what is printed, and how it ends."""
