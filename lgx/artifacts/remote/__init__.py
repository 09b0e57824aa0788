"""Sources from elsewhere: the Hugging Face hub, URLs, and the learngenes that ship with lgx."""

from lgx.artifacts.remote.access import cached, located, pinned
from lgx.artifacts.remote.downloads import without_downloads
from lgx.artifacts.remote.names import is_remote

__all__ = ["cached", "is_remote", "located", "pinned", "without_downloads"]
