"""What data modules and methods share."""
