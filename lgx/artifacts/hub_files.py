"""Read from the Hugging Face hub, through its client's cache."""

import hashlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from lgx.artifacts.export.folders import BESIDE, CONFIG, WEIGHTS
from lgx.artifacts.safetensors_files import read_header
from lgx.artifacts.source_names import HUB, LEARNGENE, SAFETENSORS
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.failures import is_full_memory, reason_of
from lgx.host.hub import SECONDS, hub_or_cache

_HUB_NAME = re.compile(
    r"hf://(?P<repository>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>refs/(?:convert|pr)/[^/#]+|[^/#]+))?"
    r"(?:/(?P<inside>[^#]+?))?/?(?:#sha256=(?P<sha256>[0-9a-fA-F]{64}))?"
)
LARGEST = 16 * 2**30
"""Largest size of a download, in bytes."""
_MAIN = "main"
_LISTED = 5


@dataclass(frozen=True)
class HubName:
    """A place on the Hugging Face hub.

    Attributes:
        repository: ``org/name``.
        revision: Branch, tag or commit; None for the branch ``main``.
        inside: File or folder in the repository; empty for the whole.
        sha256: Checksum of the file, of a folder that of its ``model.safetensors``; empty compares nothing.
    """

    repository: str
    revision: str | None = None
    inside: str = ""
    sha256: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``hf://org/name@revision/file#sha256=…``; all but organization and name may be left out."""
        found = _HUB_NAME.fullmatch(text)
        try:
            validate_repo_id(found["repository"] if found else "")
        except HFValidationError:
            found = None
        if found is None or ".." in (found["inside"] or "").split("/"):
            raise UserError(
                f"{text[:300]}: expected hf://ORGANIZATION/NAME, then @REVISION, /FILE, and #sha256= with 64 "
                f"hexadecimal digits if needed"
            )
        return cls(found["repository"], found["revision"], found["inside"] or "", (found["sha256"] or "").lower())

    def __str__(self) -> str:
        revision, inside = self.revision and f"@{self.revision}", self.inside and f"/{self.inside}"
        return f"{HUB}{self.repository}{revision or ''}{inside}{self.sha256 and f'#sha256={self.sha256}'}"


def fetch_hub(name: HubName, download: bool) -> tuple[Path, HubName]:
    """Find a learngene, a weights file or a model folder in the client's cache, or download it.

    A cached file at a full commit hash needs no server. If the hub cannot be reached, or fails, the cached version is
    read.

    Args:
        name: Place on the hub. Without a file: the repository's only learngene, otherwise the repository must be a
            model folder.
        download: Whether the hub may be asked.

    Returns:
        The file or folder, and its name at its commit.
    """
    place = str(name)
    if "." in name.inside.rpartition("/")[2] and not name.inside.endswith(SAFETENSORS):
        raise UserError(f"{place}: only safetensors files are read from elsewhere; give one that ends in .safetensors")
    is_final = re.fullmatch(r"[0-9a-f]{40}", name.revision or "") and name.inside.endswith(SAFETENSORS)
    path = None
    with suppress(LocalEntryNotFoundError, UserError):
        path = _kept(name)
    if path is None and not download:
        raise UserError(f"{place}: has not been downloaded yet; `lgx init --source {place} …` does")
    if path is None or (download and not is_final):
        path = _newest(name, place, path)
    weights = path if path.is_file() else path / WEIGHTS
    read_header(weights, place)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest() if name.sha256 else ""
    if digest != name.sha256:
        raise UserError(f"{place}: has the SHA-256 {digest}, expected {name.sha256}; it is another file, or damaged")
    return path, _name_in_cache(name, path)


def _newest(name: HubName, place: str, kept: Path | None) -> Path:
    """The version on the hub; the cached version if the hub cannot be reached or fails."""
    with hub_or_cache(place, "give a local file") as reason:
        if reason and kept is None:
            return _kept(name)
        failure = f"cannot be reached ({reason})"
        if not reason:
            try:
                return _downloaded(name, place)
            except Exception as error:
                failure = _failure(error, place)
                if kept is None:
                    raise UserError(f"{place}: the Hugging Face hub {failure}") from error
    print(f"{place}: the Hugging Face hub {failure}; the cached copy is read", file=sys.stderr)
    assert kept is not None
    return kept


def _downloaded(name: HubName, place: str) -> Path:
    info = HfApi(library_name="lgx", library_version=__version__).model_info(
        name.repository, revision=name.revision, timeout=SECONDS, files_metadata=True
    )
    sizes = {entry.rfilename: entry.size for entry in info.siblings or ()}
    first, *others = _chosen(name, [*sizes], place)
    if large := next((file for file in (first, *others) if (sizes[file] or 0) > LARGEST), None):
        raise UserError(f"{place}: {large}: is larger than {LARGEST:,} bytes; download it, and give its path")
    # The first request has the revision's name: the client then stores its commit.
    path = Path(hf_hub_download(name.repository, first, revision=name.revision or _MAIN, library_name="lgx"))
    commit = _name_in_cache(name, path).revision
    for file in others:
        hf_hub_download(name.repository, file, revision=commit, library_name="lgx")
    return path.parent if others else path


def _kept(name: HubName) -> Path:
    """The file or folder of a name in the client's cache."""
    snapshot = Path(snapshot_download(name.repository, revision=name.revision or _MAIN, local_files_only=True))
    files = [file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*") if file.is_file()]
    first, *others = _chosen(name, files, str(name))
    return (snapshot / first).parent if others else snapshot / first


def _chosen(name: HubName, files: Sequence[str], place: str) -> list[str]:
    """The files to read, the file of weights first."""
    if name.inside.endswith(SAFETENSORS):
        if name.inside not in files:
            found = [file for file in files if file.endswith(SAFETENSORS)]
            raise UserError(f"{place}: the repository has no such file; it has {_listed(found)}")
        return [name.inside]
    folder = f"{name.inside}/" if name.inside else ""
    here = [file.removeprefix(folder) for file in files if file.startswith(folder)]
    learngenes = [file for file in here if file.endswith(LEARNGENE) and "/" not in file]
    if len(learngenes) > 1:
        raise UserError(f"{place}: holds {len(learngenes)} learngenes ({_listed(learngenes)}); add /FILE to the name")
    if learngenes:
        return [folder + learngenes[0]]
    if {WEIGHTS, CONFIG} <= {*here}:
        return [folder + file for file in (WEIGHTS, CONFIG, *BESIDE) if file in here]
    raise UserError(
        f"{place}: holds no *{LEARNGENE}, and no {CONFIG} with {WEIGHTS}, but {_listed(here)}; pickled weights are not "
        f"read from elsewhere"
    )


def _listed(files: Sequence[str]) -> str:
    return ", ".join([*files[:_LISTED], *(["..."] if len(files) > _LISTED else [])]) or "none"


def _name_in_cache(name: HubName, path: Path) -> HubName:
    """The name of a file or folder in the client's cache: ``models--<repository>/snapshots/<commit>/<inside>``."""
    parts = path.parts
    at = parts.index("snapshots", max(i for i, part in enumerate(parts) if part.startswith("models--")))
    return replace(name, revision=parts[at + 1], inside="/".join(parts[at + 2 :]))


def _failure(error: Exception, place: str) -> str:
    """How the hub or the connection to it fails, in words; the error itself where the hub refuses what is asked."""
    if isinstance(error, UserError) or is_full_memory(error):
        raise error
    if isinstance(error, RevisionNotFoundError):
        raise UserError(f"{place}: the repository has no such revision; give a branch or commit after @") from error
    reason = reason_of(error)
    if isinstance(error, HfHubHTTPError):
        reason = error.server_message or reason
        is_failure = error.response.status_code >= 500 or error.response.status_code == 429
    else:  # errors of this machine, such as a full disk, have a number
        is_connection = isinstance(error, ConnectionError | TimeoutError) or getattr(error, "errno", None) is None
        is_failure = is_connection and not isinstance(error, HFValidationError)
    if is_failure:
        return f"fails ({reason}); try again later"
    raise UserError(
        f"{place}: the hub refuses it ({reason}); check the name; for what is private log in with `hf auth login`, or "
        f"set HF_TOKEN"
    ) from error
