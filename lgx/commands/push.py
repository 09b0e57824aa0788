"""``lgx push``: upload a learngene or a descendant to the Hugging Face hub."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lgx.artifacts.hub_files import HubName
    from lgx.results.sharing import Shared


def push(
    place: str,
    repository: str,
    *,
    private: bool = False,
    revision: str | None = None,
    runs: list[str] | None = None,
    dry_run: bool = False,
) -> str:
    """Upload a learngene file or a descendant's folder to the Hugging Face hub, with a model card.

    The card states method, paper, ancestor, data, the license of the ancestor's weights as timm states it, measured
    numbers, and how to load the upload. The token is that of `hf auth login` or of HF_TOKEN.

    Args:
        place: Learngene file, or folder that `lgx init` or `lgx export` wrote.
        repository: hf://org/name, with /FOLDER if needed; it is made if it does not exist.
        private: Make a new repository private.
        revision: Branch to upload to, by default main; it is made if it does not exist.
        runs: Folders of runs, or results.csv files, whose numbers the card shows; by default those of the run that
            wrote the learngene.
        dry_run: Show the files and the card; send nothing.

    Returns:
        The name of the upload at its commit, which ``lgx.init`` reads as a source.

    Raises:
        UserError: If there is nothing to upload, no token, or the hub refuses the upload.
    """
    from lgx.artifacts.hub_files import upload
    from lgx.results.sharing import CARD, shared

    hub = _target(repository, revision)
    name = str(hub)
    found = shared(place, name, runs or ())
    _show(found, name, private, dry_run)
    if dry_run:
        return name
    files: dict[str, Path | bytes] = {**found.files, CARD: found.card.encode()}
    name = str(upload(hub, files, private, f"Upload {Path(place).name} with lgx"))
    print(f"pushed    {name}")
    return name


def _target(repository: str, revision: str | None) -> "HubName":
    """The place of the upload."""
    from dataclasses import replace

    from lgx.artifacts.hub_files import HubName
    from lgx.errors import UserError

    hub = HubName.parse(repository)
    if hub.revision and revision and hub.revision != revision:
        raise UserError(f"--revision {revision}: {repository} names {hub.revision}; give one of them")
    if hub.inside.endswith(".safetensors"):
        raise UserError(f"{repository}: files keep their names; give hf://org/name, and a folder if needed")
    hub = replace(hub, revision=revision or hub.revision)
    if hub.is_commit:
        raise UserError(f"{repository}: an upload goes to a branch, not to a commit; give --revision BRANCH")
    if HubName.parse(str(hub)) != hub:
        raise UserError(f"--revision {revision}: a name hf://org/name@BRANCH cannot hold it; give one without /")
    return hub


def _show(found: "Shared", name: str, private: bool, dry_run: bool) -> None:
    """Print what is uploaded."""
    print(f"place     {name}{', private if it is new' if private else ''}")
    for file, path in found.files.items():
        print(f"upload    {file}, {path.stat().st_size:,} bytes")
    print(f"upload    README.md, {len(found.card.encode()):,} bytes")
    if found.left_out:
        print(f"left out  {', '.join(found.left_out)}")
    for note in found.notes:
        print(f"note      {note}")
    if dry_run:
        print(f"\n{found.card}\ndry run   nothing was sent")
