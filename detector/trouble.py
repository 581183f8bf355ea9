"""Something could not be reached now: tried again, and said once."""


class Trouble(Exception):  # noqa: N818 - it passes: the courier tries again
    """What could not be reached, what it means, and what can be done."""
