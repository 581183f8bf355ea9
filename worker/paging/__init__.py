"""The pager: what needs a human reaches one. A process of its own, so that it never holds up an incident."""
