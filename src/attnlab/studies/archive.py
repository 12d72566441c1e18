"""Zip files: written with the hash of every file, and unpacked without trusting any of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import IO

from attnlab.config.untrusted import MEBIBYTE, read_json
from attnlab.config.values import ConfigError
from attnlab.runs.atomic import as_bytes, hash_of

MANIFEST = "published.json"
FORMAT = 1
MOST_FILES = 10_000
MOST_BYTES = 4 << 30
"""Of all files together, unpacked."""
RATIO = 200
"""How many times larger than its packed form a file of more than a mebibyte may be: text is 3 to 10 times."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class Packed:
    """A file of an archive, by its hash and size; of one that is left out they say which file is meant."""

    sha256: str
    bytes: int
    included: bool = True


def packed_of(file: Path, *, included: bool = True) -> Packed:
    return Packed(hash_of(file), file.stat().st_size, included)


def write_archive(target: Path, files: Mapping[str, Path | bytes], left_out: Mapping[str, Path]) -> None:
    """A zip file with these files by their names in it, and of those that are left out the hashes."""
    listed = {name: _packed(content) for name, content in files.items()}
    listed |= {name: packed_of(file, included=False) for name, file in left_out.items()}
    manifest = {"format": FORMAT, "files": {name: vars(packed) for name, packed in listed.items()}}
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_entry(MANIFEST), as_bytes(manifest))
            for name, content in files.items():
                with archive.open(_entry(name), "w", force_zip64=True) as stream:
                    _copy_into(stream, content)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _packed(content: Path | bytes) -> Packed:
    if isinstance(content, Path):
        return packed_of(content)
    return Packed(hashlib.sha256(content).hexdigest(), len(content))


def _entry(name: str) -> zipfile.ZipInfo:
    """One date for all: the same study makes the same archive."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    return entry


def _copy_into(stream: IO[bytes], content: Path | bytes) -> None:
    if isinstance(content, bytes):
        stream.write(content)
        return
    with content.open("rb") as source:
        shutil.copyfileobj(source, stream, CHUNK)


# ---------------------------------------------------------------- unpacked
def unpack(archive: Path, folder: Path) -> dict[str, Packed]:
    """Put the files of an archive into a folder, all or none, each as its manifest says; a folder that holds
    the same archive already stays as it is. Returns what the manifest lists."""
    try:
        with zipfile.ZipFile(archive) as opened:
            manifest = _manifest(opened, archive)
            if folder.exists():
                _refuse_other(folder, manifest, archive)
                return manifest
            folder.parent.mkdir(parents=True, exist_ok=True)
            beside = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            try:
                for name, packed in manifest.items():
                    if packed.included:
                        _unpack_one(opened, name, packed, beside / name)
                (beside / MANIFEST).write_bytes(_read(opened, MANIFEST))
                os.chmod(beside, 0o755)
                os.replace(beside, folder)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
            return manifest
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ConfigError(f"{archive} is not a whole zip file ({error}); fetch it again.") from error


def _manifest(opened: zipfile.ZipFile, archive: Path) -> dict[str, Packed]:
    entries = opened.infolist()
    names = [entry.filename for entry in entries]
    if MANIFEST not in names:
        raise ConfigError(f"{archive} was not made by attnlab publish: it has no {MANIFEST}.")
    if len(names) > MOST_FILES or len(set(names)) < len(names):
        raise ConfigError(
            f"{archive} holds {len(names):,} files, or one twice; at most {MOST_FILES:,} are read."
        )
    for entry in entries:
        _refuse_entry(entry, archive)
    listed = _listed(_read(opened, MANIFEST), archive)
    included = {name for name, packed in listed.items() if packed.included}
    if strange := sorted(included ^ ({*names} - {MANIFEST})):
        raise ConfigError(f"{archive}: {strange[0]} is in the archive or in its list, and not in both.")
    if sum(packed.bytes for packed in listed.values()) > MOST_BYTES:
        raise ConfigError(f"{archive} unpacks to more than {MOST_BYTES:,} bytes, which is the limit.")
    return listed


def _listed(content: bytes, archive: Path) -> dict[str, Packed]:
    try:
        manifest = json.loads(content)
        if manifest["format"] != FORMAT:
            raise ConfigError(
                f"{archive} has format {manifest['format']!r}, not {FORMAT}, which this version reads."
            )
        listed = {str(name): Packed(**values) for name, values in manifest["files"].items()}
        sound = all(
            isinstance(packed.sha256, str) and isinstance(packed.bytes, int) and packed.bytes >= 0
            for packed in listed.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{archive}: its {MANIFEST} is damaged; fetch it again.") from error
    if not sound:
        raise ConfigError(f"{archive}: its {MANIFEST} is damaged; fetch it again.")
    for name in listed:
        _refuse_name(name, archive)
    return listed


def _refuse_entry(entry: zipfile.ZipInfo, archive: Path) -> None:
    """Stop at what is no plain file below the folder, or is packed beyond reason."""
    _refuse_name(entry.filename, archive)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or entry.is_dir():
        raise ConfigError(
            f"{archive}: {entry.filename} is a link or folder, not a plain file; it is not read."
        )
    if entry.file_size > max(MEBIBYTE, RATIO * entry.compress_size):
        raise ConfigError(
            f"{archive}: {entry.filename} is {entry.file_size:,} bytes packed into {entry.compress_size:,}, "
            f"more than {RATIO} times smaller; such archives are not read."
        )


def _refuse_name(name: str, archive: Path) -> None:
    parts = PurePosixPath(name).parts
    plain = bool(parts) and name == "/".join(parts) and not any(part in ("..", ".", "/") for part in parts)
    if not plain or "\\" in name or ":" in name or "\0" in name or name.startswith("/"):
        raise ConfigError(f"{archive} has a file {name!r}, which would leave its folder; it is not read.")


def _unpack_one(opened: zipfile.ZipFile, name: str, packed: Packed, file: Path) -> None:
    """A file with its hash, and not a byte more than its list says, whatever its entry claims."""
    file.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with opened.open(name) as source, file.open("xb") as stream:
        while chunk := source.read(CHUNK):
            size += len(chunk)
            if size > packed.bytes:
                break
            digest.update(chunk)
            stream.write(chunk)
    if size != packed.bytes or digest.hexdigest() != packed.sha256:
        raise ConfigError(f"{opened.filename}: {name} is not the file that was published; fetch it again.")


def _read(opened: zipfile.ZipFile, name: str) -> bytes:
    with opened.open(name) as stream:
        content = stream.read(16 * MEBIBYTE + 1)
    if len(content) > 16 * MEBIBYTE:
        raise ConfigError(f"{opened.filename}: {name} is too large: more than 16 MiB.")
    return content


def _refuse_other(folder: Path, manifest: Mapping[str, Packed], archive: Path) -> None:
    """Stop where a folder holds something else than this archive."""
    stored = read_json(folder / MANIFEST).get("files") if (folder / MANIFEST).is_file() else None
    if stored != {name: vars(packed) for name, packed in manifest.items()}:
        raise ConfigError(f"{folder} is there already, and is not {archive} unpacked; rename one of them.")
