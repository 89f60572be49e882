"""Each client as a program: a plan on standard input, what was seen on standard output."""
