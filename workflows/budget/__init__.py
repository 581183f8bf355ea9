"""Who may go next. Pure: what was counted, who asks, what is remembered and the clock go in; grants and reasons come
out. One module for each thing that can make a request wait; ``admission`` asks them in turn."""
