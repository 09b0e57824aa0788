"""Foreign files: archives, text files and tables, and the errors of unreadable files."""
