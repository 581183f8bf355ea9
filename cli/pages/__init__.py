"""Pages of HTML that need nothing but themselves: one file, no script, nothing fetched, for mail and for archives."""
