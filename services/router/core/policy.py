"""When the policy table is asked, and what it says then.

Source: DESIGN "One request". The activation decides how hard to think; the table says which way to deliberate. So its
rows are asked about queries that go to System 2, by activation or because too little is known; a row marked `always`
is asked before that, about every query, and then stands above the activation.
"""

from kernel.msv import COMPONENTS, MSV
from kernel.policy import Policy, PolicyRow
from services.router.core.activation import Activation, Choice, Route


def ruling(policy: Policy, msv: MSV, level: Activation, choice: Choice) -> PolicyRow | None:
    """The row of `policy` that decides on a query; None where the choice by activation stands.

    Args:
        policy: The table.
        msv: State of the query.
        level: Its activation.
        choice: What the activation alone leads to.
    """
    levels = {name: getattr(msv, name) for name in COMPONENTS} | {"activation": level.value}
    row = policy.first(levels, always=True)
    if row is None and choice.system is Route.SYSTEM_TWO:
        row = policy.first(levels, always=False)
    return row
