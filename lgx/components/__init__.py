"""Parts that methods are built from: losses, metrics, optimizer groups, mixup, teacher, sharding."""
