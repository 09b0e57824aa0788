"""Upload files to the Hugging Face hub."""

from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import CommitOperationAdd, get_token
from huggingface_hub.errors import RepositoryNotFoundError

from lgx.artifacts.remote.hub import hub_api
from lgx.artifacts.remote.hub_errors import LOG_IN, check_hub, hub_errors
from lgx.artifacts.remote.names import HubName
from lgx.errors import UserError
from lgx.host.hub import SECONDS


def upload(hub: HubName, files: Mapping[str, Path | bytes], private: bool, message: str) -> HubName:
    """Upload files in one commit; the repository and the branch are made where they do not exist.

    The token comes from the environment or from ``hf auth login``; lgx neither stores nor prints it.

    Args:
        hub: The repository, the branch, and the folder in the repository.
        files: Name in the repository -> file, or its content.
        private: Whether a new repository is private; an existing one stays as it is.
        message: Message of the commit.

    Returns:
        The place, at the new commit.

    Raises:
        UserError: If there is no token, the hub is out of reach, or it refuses the upload.
    """
    place = str(hub)
    if get_token() is None:
        raise UserError(f"{place}: an upload needs a token; {LOG_IN}")
    check_hub(place)
    api = hub_api()
    with hub_errors(place):
        try:  # a question that is not repeated for minutes where the hub is out of reach
            api.model_info(hub.repository, timeout=SECONDS)
        except RepositoryNotFoundError:
            api.create_repo(hub.repository, private=private, exist_ok=True)
        if hub.revision:
            api.create_branch(hub.repository, branch=hub.revision, exist_ok=True)
        folder = f"{hub.inside}/" if hub.inside else ""
        operations = [CommitOperationAdd(folder + name, content) for name, content in files.items()]
        done = api.create_commit(hub.repository, operations, commit_message=message, revision=hub.revision)
    return hub.at(done.oid, hub.inside)
