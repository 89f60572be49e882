"""Each client as a program of its own: a plan on standard input, what was seen on standard output."""
