"""What commands that ask a running server have in common."""

from pathlib import Path
from typing import Annotated

import typer

from v14.client import Client
from v14.errors import ServerError

DEFAULT_URL = "http://127.0.0.1:30000"

ServerOption = Annotated[str, typer.Option(help="Where the server is.")]
KeyFileOption = Annotated[Path | None, typer.Option(help="A file with the key that the server asks for.")]
NamespaceOption = Annotated[str | None, typer.Option(help="Whose memory, if not the key's own.")]


def asking(server: str, namespace: str | None, key_file: Path | None) -> Client:
    """A client of a server. Raises `ServerError` for a key that cannot be read."""
    try:
        key = key_file.read_text().strip() if key_file else None
    except (OSError, ValueError) as error:
        raise ServerError(f"the key cannot be read ({error}); give a readable file with --key-file") from error
    return Client(server, namespace=namespace, key=key)
