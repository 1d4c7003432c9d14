"""Asks an OpenAI-compatible server of the user for its models, once before the suite starts."""

import http.client
import json
import urllib.error
import urllib.request
from base64 import b64encode
from urllib.parse import unquote, urlsplit

from embedded.errors import SuiteError
from kernel.errors import without_user_info

TIMEOUT_S = 15.0


def first_model(url: str, key: str | None) -> str:
    """Return the id of the first model of the server at `url` (a base URL that ends in /v1).

    Raises:
        SuiteError: The server does not respond, returns an error, or has no model.
    """
    place = urlsplit(url)
    shown = without_user_info(url)
    models = f"{shown}/models"
    if not models.startswith(("http://", "https://")):
        raise SuiteError(f"{shown} is no http address of an OpenAI-compatible server", url=url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if place.username is not None and not key:  # as the services do
        credentials = f"{unquote(place.username)}:{unquote(place.password or '')}"
        headers = {"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}
    request = urllib.request.Request(models, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            found = json.load(response)
        return str(found["data"][0]["id"])
    except urllib.error.HTTPError as error:
        hint = "; set METACOG_INFERENCE_API_KEY" if error.code in (401, 403) else ""
        raise SuiteError(f"GET {models} answered {error.code} {error.reason}{hint}", url=url) from error
    except (OSError, http.client.HTTPException) as error:
        raise SuiteError(f"the inference server {shown} does not answer: {error}", url=url) from error
    except (ValueError, LookupError, TypeError) as error:
        raise SuiteError(f"GET {models} names no model; give one with --inference-model", url=url) from error
