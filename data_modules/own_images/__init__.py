"""The images of a user: class folders, folders without classes, and tables of labels."""
