"""Parts that methods share: losses, metrics, optimizer groups and schedules, mixup, the frozen teacher, sharding."""
