"""The exceptions of the package."""


class InvalidInput(ValueError):
    """The input cannot be used; the message says what is wrong and the way out."""


class ClusterLost(ConnectionError):
    """The machines that hold the samples went away in the middle of the work."""


class EndpointLost(ConnectionError):
    """The endpoint that is queried went away; the message says what is kept and how to go on."""


class NoAnswer(Exception):
    """A method sees why it cannot answer; the message names the condition and what would serve.

    It never leaves `recover`, which turns it into a status.
    """


class Spent(Exception):
    """The budget of queries or time is exhausted.

    It never leaves `extract`, which turns it into a status.
    """


class TimeSpent(Spent):
    """Time is over; what was answered until then is kept."""

    def __init__(self, used: int) -> None:
        """`used` answers were had so far."""
        super().__init__(f"time is over, after {used:,} queries")
        self.used = used


class BudgetSpent(Spent):
    """The answers that are needed next would exceed the budget; nothing was queried."""

    def __init__(self, used: int, needed: int) -> None:
        """`used` answers were had so far, `needed` more would be."""
        super().__init__(f"{used:,} queries are used and {needed:,} more are needed")
        self.used, self.needed = used, needed
