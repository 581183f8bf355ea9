"""Label selectors as Kubernetes means them: the test on labels, and the text that the API's lists take."""

from activities.cluster import Json


def selects(selector: Json, labels: dict[str, str]) -> bool:
    """Whether a selector matches labels. An empty one matches everything (D35)."""
    wanted: dict[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(requirement, labels) for requirement in selector.get("matchExpressions") or []
    )


def as_text(selector: Json) -> str:
    """The selector as the query parameter ``labelSelector``."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    return ",".join([*parts, *(_requirement(one) for one in selector.get("matchExpressions") or [])])


def _holds(requirement: Json, labels: dict[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            # As Kubernetes has it: what lacks the label is not in.
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _requirement(requirement: Json) -> str:
    key, values = requirement["key"], ",".join(requirement.get("values") or [])
    match requirement["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"
