"""The models that a client of the router may name: OpenAI's list, with our account of each."""

from collections.abc import Sequence

from pydantic import ValidationError

from chassis.serving.wire import adapter
from cli.terminal.client import Service
from kernel.prices import Price
from kernel.values import value

PATH = "/v1/models"


@value
class AboutModel:
    """Our account of a model.

    Attributes:
        kind: `model`, `strategy` and so on.
        price: Its price; None where it is unknown.
    """

    kind: str = ""
    price: Price | None = None


@value
class ServedModel:
    """A model that a client may name."""

    id: str
    metacog: AboutModel


@value
class ServedModels:
    """The list."""

    data: Sequence[ServedModel]


def served_models(router: Service) -> Sequence[ServedModel]:
    """Return the models that a client of the router may name.

    Raises:
        Unreachable: The router cannot be reached, or its reply is no such list.
        ServiceError: The router returned an error.
    """
    try:
        found: ServedModels = adapter(ServedModels).validate_python(router.get_document(PATH), extra="ignore")
    except ValidationError as error:
        raise router.foreign(f"{PATH} is no list of models ({error.error_count()} problems)") from error
    return found.data
