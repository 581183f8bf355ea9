"""``nodemend doctor``: what keeps an installation from repairing, with what it means and how to mend it."""
