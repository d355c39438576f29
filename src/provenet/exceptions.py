"""The errors that provenet raises."""


class InvalidInput(ValueError):
    """The input cannot be used; the message names the problem and a way out in one sentence."""
