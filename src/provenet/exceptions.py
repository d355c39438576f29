"""The errors that provenet raises."""


class InvalidInput(ValueError):
    """The input cannot be used; the message is one sentence that names the problem and a way out."""
