"""Each client as a program: a plan on standard input, the outcomes on standard output."""
