"""The folder of compiled objects, each of which carries its own digest in its name.

Nothing is believed: a folder that others could write to is refused, and an object whose bytes are
not those that were put there is removed.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from einbound.errors import BackendError

_log = logging.getLogger(__name__)

#: Hexadecimal digits of keys and digests in names of files.
_N_DIGITS = 40
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Objects:
    """A folder of objects that belongs to one user.

    Attributes:
        folder: Where they are; made by `opened`.
    """

    folder: Path

    @classmethod
    def opened(cls, folder: Path) -> Objects:
        """The objects in a folder, which is made if it is not there.

        Raises:
            BackendError: It cannot be made, belongs to somebody else, or others may write to it.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            raise unusable(folder, error) from None
        _check_owner(folder, found)
        return cls(folder)

    def find(self, key: str) -> Path | None:
        """The object of a key, if it is there and whole; one that is not is removed."""
        for path in sorted(self.folder.glob(f"{key}-*.so")):
            said = path.stem.rpartition("-")[2]
            try:
                is_whole = digest(path.read_bytes()) == said
            except OSError:
                continue
            if is_whole:
                return path
            _log.warning("object %s is not what was put there; it is built again", path)
            path.unlink(missing_ok=True)
        return None

    def put(self, key: str, made: Path) -> Path:
        """Keep a file as the object of a key, in one move.

        Args:
            key: Tells it from all others.
            made: A file in a folder that `scratch` made.
        """
        target = self.folder / f"{key}-{digest(made.read_bytes())}.so"
        made.chmod(0o700)
        return made.replace(target)

    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A folder beside the objects, for one build; it goes when it is left."""
        return tempfile.TemporaryDirectory(prefix="build-", dir=self.folder)


def unusable(folder: Path, error: OSError) -> BackendError:
    """The error of a folder that cannot be read, or written to, or is full."""
    return BackendError(
        f"the cache folder {folder} cannot be used: {error.strerror or error}; name another one in "
        "$EINBOUND_CACHE or in einbound.options(cache=...)"
    )


def digest(content: bytes) -> str:
    """A word for some bytes that no others have."""
    return sha256(content).hexdigest()[:_N_DIGITS]


def _check_owner(folder: Path, found: os.stat_result) -> None:
    """Nothing, if a folder is one, of this user alone.

    Raises:
        BackendError: It is not; the message says why.
    """
    if not stat.S_ISDIR(found.st_mode):
        why = "is no folder, or a link to one"
    elif hasattr(os, "getuid") and found.st_uid != os.getuid():
        why = f"belongs to user {found.st_uid}"
    elif found.st_mode & _OTHERS_MAY_WRITE:
        why = f"can be written to by others (mode {stat.S_IMODE(found.st_mode):o})"
    else:
        return
    raise BackendError(
        f"the cache folder {folder} {why}; code is only run from a folder of your own; remove it, "
        f"run chmod 700 on it, or name another one in $EINBOUND_CACHE"
    )
