"""Names of sources that lie elsewhere: ``hf://org/name@revision/file``, URLs of fsspec, ``zoo:NAME``."""

import re
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from lgx.errors import UserError

HUB, ZOO = "hf://", "zoo:"
SAFETENSORS, LEARNGENE = ".safetensors", ".learngene.safetensors"
"""How the names of weights and of learngenes end."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*(::|://)")
_HUB_NAME = re.compile(
    r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<inside>.+?))?/?"
)
_DIGEST = re.compile(r"sha256=([0-9a-f]{64})")
_SECRET = re.compile(r"signature|^sig$|token|secret|password|credential|api_?key|access_?key", re.IGNORECASE)


@dataclass(frozen=True)
class RemoteName:
    """A name without its checksum, and the checksum.

    Attributes:
        place: The name up to ``#``.
        sha256: SHA-256 of the file, of a folder that of its ``model.safetensors``; None where none is given.
    """

    place: str
    sha256: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split a name at ``#``.

        Raises:
            UserError: If something else than a checksum follows ``#``.
        """
        place, hash_sign, fragment = text.partition("#")
        found = _DIGEST.fullmatch(fragment.lower())
        if hash_sign and found is None:
            raise UserError(f"{text[:300]}: after # expected sha256= and 64 hexadecimal digits")
        return cls(place, found[1] if found else None)

    def pinned(self, sha256: str) -> str:
        """The text form with a checksum."""
        return f"{self.place}#sha256={sha256}"

    def __str__(self) -> str:
        return self.place if self.sha256 is None else self.pinned(self.sha256)


@dataclass(frozen=True)
class HubName:
    """A place on the Hugging Face hub.

    Attributes:
        repository: ``org/name``.
        revision: Branch, tag or commit; None for the branch ``main``.
        inside: File or folder in the repository; empty for the whole.
    """

    repository: str
    revision: str | None = None
    inside: str = ""

    @classmethod
    def parse(cls, place: str) -> Self:
        """Read ``hf://org/name@revision/file``; all but organization and name may be left out.

        Raises:
            UserError: If the text has another form.
        """
        found = _HUB_NAME.fullmatch(place)
        inside = (found["inside"] or "") if found else ""
        if found is None or ".." in inside.split("/"):
            raise UserError(f"{place[:300]}: expected hf://ORGANIZATION/NAME, then @REVISION and /FILE if needed")
        return cls(found["repository"], found["revision"], inside)

    @property
    def is_commit(self) -> bool:
        """Whether the revision is a whole commit, which never changes."""
        return re.fullmatch(r"[0-9a-f]{40}", self.revision or "") is not None

    def at(self, commit: str, inside: str) -> "HubName":
        """The same repository at a commit, with a file or folder in it."""
        return replace(self, revision=commit, inside=inside)

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{HUB}{self.repository}{revision}{'/' if self.inside else ''}{self.inside}"


def is_remote(source: str) -> bool:
    """Whether a source is a name on the hub, a URL, or the name of a learngene that ships with lgx."""
    return source.startswith(ZOO) or _URL.match(source) is not None


def check_url(url: str) -> None:
    """Refuse a URL with a password, a token or a signature: records of runs and model folders would store it.

    Raises:
        UserError: If it has one, or cannot be parsed.
    """
    for link in url.split("::"):  # fsspec chains URLs: simplecache::https://host/file
        try:
            parts = urlsplit(link)
        except ValueError as error:
            raise UserError(f"{link.partition('://')[0]}://…: not a valid URL ({error})") from error
        wrong = next((key for key, _ in parse_qsl(parts.query, keep_blank_values=True) if _SECRET.search(key)), None)
        user, at, host = parts.netloc.rpartition("@")
        if ":" in user:
            wrong = "a password"
        elif at and parts.scheme in ("http", "https"):  # for other systems a user's name is no secret
            wrong = "a user or token"
        if wrong is not None:
            raise UserError(
                f"{parts.scheme}://{host}{parts.path[:200]}: the URL holds {wrong}, which records would store; "
                f"download the file and give its path"
            )
