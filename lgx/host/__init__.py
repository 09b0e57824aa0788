"""The machine: files, locks, signals, the launcher, failures, and the start of a program."""
