"""Asks an OpenAI-compatible server of the user for its models, once before the suite starts."""

import http.client
import json
import urllib.error
import urllib.request

from embedded.errors import SuiteError

TIMEOUT_S = 15.0


def first_model(url: str, key: str | None) -> str:
    """Return the id of the first model of the server at `url` (a base URL that ends in /v1).

    Raises:
        SuiteError: The server does not respond, returns an error, or has no model.
    """
    models = f"{url}/models"
    if not models.startswith(("http://", "https://")):
        raise SuiteError(f"{url} is no http address of an OpenAI-compatible server", url=url)
    request = urllib.request.Request(models, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            found = json.load(response)
        return str(found["data"][0]["id"])
    except urllib.error.HTTPError as error:
        hint = "; set METACOG_INFERENCE_API_KEY" if error.code in (401, 403) else ""
        raise SuiteError(f"GET {models} answered {error.code} {error.reason}{hint}", url=url) from error
    except (OSError, http.client.HTTPException) as error:
        raise SuiteError(f"the inference server {url} does not answer: {error}", url=url) from error
    except (ValueError, LookupError, TypeError) as error:
        raise SuiteError(f"GET {models} names no model; give one with --inference-model", url=url) from error
