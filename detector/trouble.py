"""What goes wrong in delivering: what passes is tried again, what does not is given up, and both say why."""


class Trouble(Exception):  # noqa: N818 - it passes: the courier tries again
    """What could not be reached, what it means, and what can be done."""


class Hopeless(Exception):  # noqa: N818 - one entry, not the courier
    """No repetition will deliver this entry to this side: why, and where it went instead."""
