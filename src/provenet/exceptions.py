"""The exceptions of the package."""


class InvalidInput(ValueError):
    """The input cannot be used; the message says what is wrong and the way out."""


class ClusterLost(ConnectionError):
    """The machines that hold the samples went away in the middle of the work."""


class NoAnswer(Exception):
    """A method sees why it cannot answer; the message names the condition and what would serve.

    It never leaves `recover`, which turns it into a status.
    """
