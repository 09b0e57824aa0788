"""Files from elsewhere: archives, text files and tables, and what is raised for those that cannot be read."""
