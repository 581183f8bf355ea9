"""Numbers in sentences: what people read says "1 incident" and "2 incidents"."""


def counted(number: int, one: str, many: str = "") -> str:
    """The number with its word. ``many``: where the plural is another word, or a verb follows it."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
