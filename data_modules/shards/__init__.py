"""webdataset shards: writing, their index, reading, streaming, and the data modules that read them."""

import os

os.environ.setdefault("WDS_SECURE", "1")  # webdataset reads this once, at import

import webdataset as wds

# If another package imported webdataset before, the environment variable was set too late.
wds.utils.enforce_security = True
