"""LSAMD: learngene selection across data sets."""
