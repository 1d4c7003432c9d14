"""This module generates the OpenAPI document of every service, as the service itself serves it: `docs/openapi/`."""

import asyncio
import json
from importlib import import_module
from pathlib import Path
from unittest.mock import MagicMock

from configuration.services import SERVICES


def documents(root: Path) -> dict[Path, str]:
    """Return each OpenAPI document by its file.

    The services are composed over parts that do nothing: a document has only their paths and types.
    """
    return asyncio.run(_documents(root / "docs" / "openapi"))


async def _documents(folder: Path) -> dict[Path, str]:
    made: dict[Path, str] = {}
    for name in SERVICES:
        settings = import_module(f"services.{name}.settings").Settings()
        service = import_module(f"services.{name}.compose").compose(settings, MagicMock())
        made[folder / f"{name}.json"] = json.dumps(service.app.openapi(), indent=1, ensure_ascii=False) + "\n"
    return made
