"""``lgx push``: upload a learngene or a descendant to the Hugging Face hub."""

from pathlib import Path


def push(
    place: str,
    repository: str,
    *,
    private: bool = False,
    runs: list[str] | None = None,
    dry_run: bool = False,
) -> str:
    """Upload a learngene file or a descendant's folder to the Hugging Face hub, with a model card.

    The card states method, paper, ancestor, data, the license of the ancestor's weights as timm states it, measured
    numbers, and how to load the upload. The token is that of `hf auth login` or of HF_TOKEN.

    Args:
        place: Learngene file, or folder that `lgx init` or `lgx export` wrote.
        repository: hf://org/name, with @BRANCH and /FOLDER if needed; it is made if it does not exist.
        private: Make a new repository private.
        runs: Folders of runs, or results.csv files, whose numbers the card shows; by default those of the run that
            wrote the learngene.
        dry_run: Show the files and the card; send nothing.

    Returns:
        The name of the upload at its commit, which ``lgx.init`` reads as a source.

    Raises:
        UserError: If there is nothing to upload, no token, or the hub refuses the upload.
    """
    from lgx.artifacts.hub_files import HubName, upload
    from lgx.errors import UserError
    from lgx.results.sharing import CARD, shared

    hub = HubName.parse(repository)
    if hub.is_commit or hub.inside.endswith(".safetensors"):
        raise UserError(
            f"{repository}: expected hf://org/name, with @BRANCH and /FOLDER if needed; files keep their names"
        )
    found = shared(place, hub, runs or ())
    print(f"place     {hub}{', private if it is new' if private else ''}")
    for file, path in found.files.items():
        print(f"upload    {file}, {path.stat().st_size:,} bytes")
    for note in found.notes:
        print(note)
    if dry_run:
        print(f"\n{found.card}\ndry run   nothing was sent")
        return str(hub)
    files: dict[str, Path | bytes] = {**found.files, CARD: found.card.encode()}
    name = str(upload(hub, files, private, f"Upload {Path(place).name} with lgx"))
    print(f"pushed    {name}")
    return name
