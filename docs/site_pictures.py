"""Hook: pages with diagrams get Mermaid from the site itself, so that no reader's browser asks another machine for it.

``make docs`` fetches the archive of Mermaid once. Without it the diagrams are shown as text.
"""

import hashlib
import tarfile
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ARCHIVE = Path(__file__).parents[1] / ".mermaid" / "mermaid-11.17.2.tgz"
"""What ``npm pack`` of this version writes."""
SHA256 = "6ad2f42c3fc26bbf9e45cbb6d11898972573ea52b33a5f4ff51952899f950ffd"
_SCRIPT = "assets/javascripts/mermaid.min.js"
_DIAGRAM = '<pre class="mermaid">'


def on_files(files: Files, config: Any) -> Files:
    """Add the script to the site, if its archive is here and unchanged."""
    if ARCHIVE.exists():
        if hashlib.sha256(ARCHIVE.read_bytes()).hexdigest() != SHA256:
            raise PluginError(f"{ARCHIVE}: is not the published archive; delete it and run make docs")
        with tarfile.open(ARCHIVE) as archive:
            member = archive.extractfile("package/dist/mermaid.min.js")
            assert member is not None
            files.append(File.generated(config, _SCRIPT, content=member.read()))
    return files


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load the script on a page with diagrams, before the theme looks for it."""
    if _DIAGRAM not in output:
        return output
    if not ARCHIVE.exists():
        return output.replace(_DIAGRAM, "<pre>")
    script = f'<script src="{get_relative_url(_SCRIPT, page.url)}"></script>'
    return output.replace("</head>", f"{script}</head>", 1)
