"""Images: files, class folders, transforms, the cache of pixels, and the base of all image data modules."""
