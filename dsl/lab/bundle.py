"""Finds the files of a log, and packs them with the log: a bundle is a zip file that another machine can replay.

A bundle contains `log.jsonl`, `bundle.json` (which file of the log is which file of the bundle), the `.tile` files with
their imports, plug-ins, handwritten code, `requirements.txt` and a `README.md`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from msgspec import MsgspecError, Struct, field, to_builtins
from msgspec.json import decode

from dsl.kernels.plugin_files import plugin_texts
from dsl.lab.provenance import PACKAGES
from dsl.lab.replay import LogFiles, Replayed, counts
from dsl.lab.trial import LogLine, Trial, texts_of
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import current
from dsl.text.files import MAX_LOG, MAX_TEXT, is_file, read_text
from dsl.text.program import load

LOG, MANIFEST, README, LOCK = "log.jsonl", "bundle.json", "README.md", "requirements.txt"
SCHEMA = 1
MAX_FILES = 10_000
MAX_UNPACKED = 2 * MAX_LOG
"""Limits of a bundle that is read, since a small zip file may unpack to terabytes."""
DATED = (1980, 1, 1, 0, 0, 0)
"""The date of all files in a bundle, so that equal contents make equal bundles."""
TOOL_PACKAGES = ("nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm")
PROJECT = "dsl"


class FilesOfLog:
    """The files of a log, at the paths that it has, from the current folder or from the log's folder. `--plugin FILE`
    replaces a plug-in of the same name."""

    def __init__(self, log: Path):
        self.folders = (Path(), log.parent)

    def file(self, trial: Trial) -> Path:
        return self._found(trial.file or "a file that the line does not name", "it is relative to where the log was")

    def plugins(self, trial: Trial) -> list[Path]:
        given = {Path(each).name: Path(each) for each in current().files}
        known = {Path(each).name: each for each in trial.plugins}
        names = [name.removeprefix("plugin ") for name in trial.versions if name.startswith("plugin ")]
        return [given[name] if name in given else self._found(known.get(name, name), "--plugin FILE") for name in names]

    def edited(self, trial: Trial) -> Path:
        return self._found(trial.edited, "it is the file of --from")

    def _found(self, name: str, hint: str) -> Path:
        for folder in self.folders:
            if is_file(folder / name):
                return folder / name
        raise TileError("file", None, f"there is no file {name}", hint)


class Manifest(Struct):
    """Maps the files that a log names to the files of its bundle."""

    schema: int = SCHEMA
    files: dict[str, str] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict)
    edited: dict[str, str] = field(default_factory=dict)


class FilesOfBundle:
    """The files of a bundle that is unpacked in a folder."""

    def __init__(self, folder: Path, manifest: Manifest):
        self.folder, self.manifest = folder, manifest

    def file(self, trial: Trial) -> Path:
        return self._found(self.manifest.files, trial.file)

    def plugins(self, trial: Trial) -> list[Path]:
        names = [name.removeprefix("plugin ") for name in trial.versions if name.startswith("plugin ")]
        return [self._found(self.manifest.plugins, name) for name in names]

    def edited(self, trial: Trial) -> Path:
        return self._found(self.manifest.edited, trial.edited)

    def _found(self, known: Mapping[str, str], name: str) -> Path:
        if name not in known:
            raise TileError("file", None, f"the bundle has no file {name}")
        path = (self.folder / known[name]).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise TileError("file", None, f"the bundle names {known[name]}, which is outside of it")
        return path


# ---- reading ----


def unpack(path: Path, folder: Path) -> tuple[Path, FilesOfBundle]:
    """Unpacks a bundle into a folder. Returns the log and its files. Raises TileError `file` or `limit`."""
    try:
        with zipfile.ZipFile(path) as packed:
            files = packed.infolist()
            if len(files) > MAX_FILES or sum(each.file_size for each in files) > MAX_UNPACKED:
                message = f"{path} unpacks to more than {MAX_FILES} files or {MAX_UNPACKED} bytes"
                raise TileError("limit", None, message, "unpack it, and replay its log.jsonl")
            packed.extractall(folder)  # which leaves out drives, and parts such as `..`
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise TileError("file", None, f"cannot read {path}: {error}") from None
    try:
        manifest = decode(read_text(folder / MANIFEST, MAX_TEXT), type=Manifest)
    except MsgspecError as error:
        raise TileError("file", None, f"{path} is no bundle: {MANIFEST}: {error}") from None
    if manifest.schema != SCHEMA:
        raise TileError("file", None, f"{path} has schema {manifest.schema} of bundles, not {SCHEMA}")
    return folder / LOG, FilesOfBundle(folder, manifest)


# ---- writing ----


def write_bundle(path: Path, lines: Sequence[LogLine], found: Sequence[Replayed], sources: LogFiles) -> list[str]:
    """Packs a log with its files and with what its replay found. Returns the names of the packed files. Raises
    TileError `file` if a file of the log is missing."""
    packed: dict[str, str] = {LOG: "".join(f"{line.text}\n" for line in lines)}
    manifest = Manifest()
    trials = [line.trial for line in lines if line.trial is not None]
    for trial in trials:
        pack_file(trial, sources, manifest, packed)
        pack_plugins(trial, sources, manifest, packed)
        if trial.edited and trial.edited not in manifest.edited:
            source = sources.edited(trial)
            name = manifest.edited[trial.edited] = f"code/{len(manifest.edited)}/{source.name}"
            packed[name] = read_text(source, MAX_TEXT)
    packed[MANIFEST] = json.dumps(to_builtins(manifest), indent=1) + "\n"
    packed[LOCK] = locked_versions(trials)
    packed[README] = readme(path.name, lines, found)
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            for name in sorted(packed):
                made.writestr(zipfile.ZipInfo(name, DATED), packed[name], zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise TileError("file", None, f"cannot write {path}: {error.strerror or error}") from None
    return sorted(packed)


def pack_file(trial: Trial, sources: LogFiles, manifest: Manifest, packed: dict[str, str]) -> None:
    """Packs a `.tile` file and its imports. A folder of its own keeps their relative paths."""
    if trial.file in manifest.files:
        return
    source = sources.file(trial)
    folder = f"texts/{len(manifest.files)}"
    manifest.files[trial.file] = f"{folder}/{source.name}"
    packed |= {f"{folder}/{Path(name).as_posix()}": text for name, text in texts_of(load(source)).items()}


def pack_plugins(trial: Trial, sources: LogFiles, manifest: Manifest, packed: dict[str, str]) -> None:
    """Packs the plug-ins of a trial, with the tables of instructions beside them."""
    for source in sources.plugins(trial):
        if source.name in manifest.plugins:
            continue
        texts, folder = plugin_texts(source), f"plugins/{len(manifest.plugins)}"
        if outside := [name for name in texts if name.startswith("..")]:
            raise TileError("file", None, f"{source} names {outside[0]}, which is outside of its folder")
        manifest.plugins[source.name] = f"{folder}/{source.name}"
        packed |= {f"{folder}/{name}": text for name, text in texts.items()}


def locked_versions(trials: Sequence[Trial]) -> str:
    """The versions of all packages that the project needs, for `pip install -r`: those of the log's last trial, and
    for packages that a log does not name, those installed here."""
    last = trials[-1].versions if trials else {}
    pins = {name: version(name) for name in needed(PROJECT)}
    pins |= {name: last[name] for name in PACKAGES if name in last}
    for name in TOOL_PACKAGES:
        try:
            pins[name] = version(name)
        except PackageNotFoundError:
            continue
    about = [f"# {name} {last[name]}" for name in ("python", "ptxas", "nvdisasm") if name in last]
    return "\n".join([*about, *(f"{name}=={pins[name]}" for name in sorted(pins))]) + "\n"


def needed(project: str) -> Iterator[str]:
    """The installed packages that a project needs, directly or not, but for extras."""
    rest, known = [project], {project}
    while rest:
        try:
            requires = distribution(rest.pop()).requires or []
        except PackageNotFoundError:  # an optional part of another platform
            continue
        for text in requires:
            name = re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0]
            if "extra ==" in text or name in known:
                continue
            known.add(name)
            try:
                version(name)
            except PackageNotFoundError:
                continue
            rest.append(name)
            yield name


def readme(name: str, lines: Sequence[LogLine], found: Sequence[Replayed]) -> str:
    """What the bundle is, and how to repeat it."""
    trials = [line.trial for line in lines if line.trial is not None]
    commits = dict.fromkeys(trial.commit for trial in trials if trial.commit)
    devices = dict.fromkeys(trial.device + (f", {trial.driver}" if trial.driver else "") for trial in trials)
    commands = dict.fromkeys(" ".join(trial.command) for trial in trials if trial.command)
    times = sorted(trial.made for trial in trials if trial.made)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts(found).items())
    commit = next(reversed(commits), "COMMIT")
    text = [
        f"# {name}: {len(lines)} trials of dsl",
        "",
        "Repeat them, in a clone of the project:",
        "",
        "```sh",
        f"git checkout {commit.removesuffix('-dirty')}",
        f"unzip {name} {LOCK} && pip install -e . -r {LOCK}",
        f"dsl replay {name}",
        "```",
        "",
        "`dsl replay` compiles each trial again, runs it on the emulator or a GPU as then, and prints a line for each.",
        "Plug-ins of the bundle are Python code, which it executes.",
        "",
        f"- Made: {' to '.join(dict.fromkeys((times[0], times[-1])) if times else ['unknown'])}",
        *(f"- Commit: {each}" for each in commits),
        *(f"- Device: {each}" for each in devices),
        *(f"- Command: `{each}`" for each in commands),
        f"- Replayed before they were packed: {verdicts}",
    ]
    if any(each.endswith("-dirty") for each in commits):
        text.append("- Files of the project differed from the commit: the compiler's digests in the log tell.")
    return "\n".join(text) + "\n"
