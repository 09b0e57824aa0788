"""Types and tools that data modules and methods share."""
