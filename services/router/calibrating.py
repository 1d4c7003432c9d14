"""Calibration as the rest of the router needs it, put together."""

from dataclasses import dataclass
from functools import partial

from chassis.db import Sessions
from services.router.core.calibration import FittingRules
from services.router.service.calibration import Calibrating, get_activations, get_calibration, rollback_calibration
from services.router.service.recalibrating import PAUSE_S, REFRESH_S, Calibrator
from services.router.service.route import RoutingConfig
from services.router.store.activations import PostgresActivations
from services.router.store.calibration import PostgresCalibration


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Calibration.

    Attributes:
        calibrator: Maps each answer's confidence, and fits the maps.
        use: What the faces can ask.
    """

    calibrator: Calibrator
    use: Calibrating


def build_calibration(
    sessions: Sessions,
    config: RoutingConfig,
    rules: FittingRules,
    *,
    refresh_s: float = REFRESH_S,
    pause_s: float = PAUSE_S,
) -> Calibration:
    """Calibration from the database behind `sessions`; `config` is how the choice of system is made."""
    store = PostgresCalibration(sessions)
    calibrator = Calibrator(store, rules=rules, refresh_s=refresh_s, pause_s=pause_s)
    return Calibration(
        calibrator=calibrator,
        use=Calibrating(
            get=partial(get_calibration, store=store, minimum=rules.minimum),
            rollback=partial(rollback_calibration, store=store, refresh=calibrator.refresh),
            activations=partial(get_activations, config=config, seen=PostgresActivations(sessions).seen),
        ),
    )
