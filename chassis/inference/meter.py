"""What a stream costs, from its reservation to its report."""

from contextlib import ExitStack

from chassis.inference.accounts import Account
from chassis.inference.observing import Report
from chassis.inference.tally import Tally
from kernel.envelope import StageUsage


class Meter:
    """The account of one streamed call. `settle` it when the stream has ended well, `close` it in any case.

    Args:
        account: Its reservation.
        tally: What passes by.
        report: Told at the end what was spent, and the error if there was one.
    """

    def __init__(self, account: Account, tally: Tally, report: Report) -> None:
        self.account = account
        self.tally = tally
        self.exchange = account.exchange(tally.samples)
        self._report = report
        self._settled = False
        self._open = ExitStack()
        self._open.enter_context(account)
        self._open.enter_context(self.exchange)

    @property
    def usage(self) -> StageUsage:
        """What has been seen so far, HTTP calls included."""
        return self.exchange.usage if self._settled else self.exchange.usage_with(self.tally.cost())

    def settle(self) -> StageUsage:
        """Take the tally for the cost; with its HTTP calls."""
        self._settled = True
        self.exchange.cost(self.tally.cost())
        return self.exchange.usage

    def close(self, error: BaseException | None) -> None:
        """Book what is known, count as lost what is not, and report. No-op once closed."""
        if not self._settled and not self.tally.nothing_known:
            self.exchange.cost(self.tally.cost())
        usage = self.exchange.usage
        self._open.close()
        self._report.end(usage, error or (None if self._settled else GeneratorExit()))
