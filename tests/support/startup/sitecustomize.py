"""Python runs this file when a test starts it: it collects garbage rarely, as the ``lgx`` program does."""

import gc

gc.set_threshold(50_000, 20, 100)
