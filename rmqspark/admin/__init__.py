"""REST administration and the console, in a process of their own: no browser slows a send down."""
