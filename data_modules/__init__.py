"""Data modules: importing this package makes every one of them known to the CLI by its short name."""
