"""The routing configuration in force comes from single settings, or from a routing file; never from both."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from chassis.errors import ConfigurationInvalid
from configuration.routing import RoutingFile, read_routing
from kernel.activation import ActivationWeights, Route
from kernel.policy import Policy
from services.router.service.assessment.routing import RoutingConfig, version_of

SETTING = "METACOG_ROUTER_ROUTING_FILE"


def routing_config(
    stated: RoutingConfig, version: str = "", *, file: Path | None = None, policy: Policy | None = None
) -> RoutingConfig:
    """Return the configuration in force, under the name that is recorded with each decision.

    Args:
        stated: The single settings.
        version: The version among them; empty: none.
        file: The routing file; None: the single settings hold.
        policy: The policy table, whose digest becomes part of the name: it decides too.

    Raises:
        ConfigurationInvalid: For a file that cannot be used, or beside single settings other than the defaults.
    """
    config = stated
    if file is not None:
        if clashing := _changed_settings(stated, version):
            message = (
                f"{SETTING} and {', '.join(clashing)} are both set; put all of it into the file, or leave the file out"
            )
            raise ConfigurationInvalid(message, setting=SETTING)
        content = read_routing(file)
        config, version = _of_file(content), content.version
    name = version or version_of(config)
    return replace(config, version=f"{name}+policy.{policy.version}" if policy else name)


def _of_file(content: RoutingFile) -> RoutingConfig:
    config = RoutingConfig()
    if content.weights is not None:
        config = replace(config, weights=ActivationWeights(**asdict(content.weights)))
    if content.threshold is not None:
        config = replace(config, threshold=content.threshold)
    if content.undetermined is not None:
        config = replace(config, undetermined=Route(content.undetermined))
    return config


def _changed_settings(stated: RoutingConfig, version: str) -> list[str]:
    """Return the single settings that differ from the paper."""
    default = RoutingConfig()
    pairs: Mapping[str, tuple[object, object]] = {
        "THRESHOLD": (stated.threshold, default.threshold),
        **{
            f"WEIGHT_{name.upper()}": (weight, getattr(default.weights, name))
            for name, weight in asdict(stated.weights).items()
        },
        "UNDETERMINED": (stated.undetermined, default.undetermined),
        "CONFIG_VERSION": (version, ""),
    }
    return [f"METACOG_ROUTER_{name}" for name, (given, usual) in pairs.items() if given != usual]
