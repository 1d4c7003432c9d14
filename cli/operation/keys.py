"""`metacog keys` creates API keys."""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.output import print_json

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.callback()
def keys() -> None:
    """API keys."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the key's holder; recorded with each run.")],
    file: Annotated[Path, typer.Option(help="Keys file to add it to; created if missing.")],
    may_teach: Annotated[bool, typer.Option(help="Whether its feedback may change what the suite learns.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")] = False,
) -> None:
    """Create an API key: the key is shown once, and its hash is stored in the file."""
    import secrets
    from hashlib import sha256

    from configuration.keys import KeyEntry, keys_text, read_keys

    known = read_keys(file).keys if file.exists() else ()
    if name in [holder.name for holder in known]:
        raise typer.BadParameter(f"{file} has a key named {name!r} already", param_hint="NAME")
    key = f"mc-{secrets.token_urlsafe(32)}"
    created = KeyEntry(name=name, sha256=sha256(key.encode()).hexdigest(), may_teach=may_teach).api_key()
    file.touch(mode=0o600)
    file.write_text(keys_text([*known, created]))
    if as_json:
        print_json({"name": name, "key": key, "file": str(file), "may_teach": may_teach})
    else:
        typer.echo(key)
