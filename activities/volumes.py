"""Volumes that a drained node still holds: the instance must not end under them while they are being detached."""

from collections.abc import Iterable

from activities.cluster import Cluster, Json


def held_volumes(cluster: Cluster, node: str, staying: Iterable[Json]) -> tuple[str, ...]:
    """The node's VolumeAttachments that are to go, in words.

    Those of pods that stay by right stay as long as these, and are left out.
    """
    attachments = cluster.volume_attachments(node)
    if not attachments:
        return ()
    kept = {volume for pod in staying for volume in _volumes_of(cluster, pod)}
    return tuple(_words(one) for one in attachments if one["spec"]["source"].get("persistentVolumeName") not in kept)


def _volumes_of(cluster: Cluster, pod: Json) -> Iterable[str]:
    for volume in pod["spec"].get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            # Kubernetes names the claim so (Ephemeral Volumes, PersistentVolumeClaim naming).
            name = f"{pod['metadata']['name']}-{volume['name']}"
        else:
            continue
        claim = cluster.volume_claim(pod["metadata"]["namespace"], name)
        if claim and (volume_name := claim["spec"].get("volumeName")):
            yield str(volume_name)


def _words(attachment: Json) -> str:
    spec, metadata = attachment["spec"], attachment["metadata"]
    volume = spec["source"].get("persistentVolumeName", "an inline volume")
    state = "being detached" if "deletionTimestamp" in metadata else "attached"
    error = (attachment.get("status", {}).get("detachError") or {}).get("message")
    said = f", which says: {error}" if error else ""
    return f"PersistentVolume {volume} ({state}: VolumeAttachment {metadata['name']} of {spec['attacher']}{said})"
