"""Downloading an official checkpoint into a folder: whole or not at all, going on where it broke off."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .checkpoint_files import CheckpointError
from .hub import WEIGHTS_LICENSE_URL, OfficialCheckpoint, refusal

logger = logging.getLogger("sapiens2")

#: Ending of what is not whole yet. Nothing that lists checkpoints takes it for one.
PARTIAL_SUFFIX = ".incomplete"

#: Disk to leave free, in bytes: a full disk stops more than this download.
_SPARE_BYTES = 200 * 2**20
_READ_BYTES = 8 * 2**20


class _Meter:
    """The file that huggingface_hub writes to: counts what has come, and may raise to stop it."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None], check_cancelled: Callable[[], None]) -> None:
        self._file, self._on_bytes, self._check_cancelled = file, on_bytes, check_cancelled

    def write(self, data: bytes) -> int:
        self._check_cancelled()
        written = self._file.write(data)
        self._on_bytes(self._file.tell())
        return written

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int) -> int:  # to the start, where a server can't send a part
        return self._file.seek(offset)

    def truncate(self) -> int:
        return self._file.truncate()


def download(
    official: OfficialCheckpoint,
    folder: Path,
    *,
    on_progress: Callable[[int, int], None],
    check_cancelled: Callable[[], None],
) -> Path:
    """Downloads an official checkpoint from the hub, as a plain file under the authors' name.

    Until it is whole it bears another name, which says of which version it is a part. A download that broke off or
    was cancelled leaves that part, and the next one goes on from there. Two programs that want the same file wait for
    each other. The hub, a mirror of it, a token and being offline are set as for all of huggingface_hub
    (HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE…).

    Args:
        official: which one.
        folder: where to put it; made if it isn't there.
        on_progress: called with the bytes that are here and the bytes of the whole.
        check_cancelled: called all the time; raise from it to stop.

    Returns:
        The file.

    Raises:
        CheckpointError: the hub can't be reached or refuses, the disk is too full, or what came is damaged. One
            sentence or two: why, and what to put where by hand.
    """
    target = folder / official.filename
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder / f".{official.filename}.lock", check_cancelled):
            if not target.is_file():  # another program may have it by now
                _download(official, target, on_progress, check_cancelled)
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise CheckpointError(
            f"{target} can't be written ({reason}). Or by hand: {_by_hand(official, folder)}"
        ) from error
    return target


@contextlib.contextmanager
def _only_one(lock_file: Path, check_cancelled: Callable[[], None]) -> Iterator[None]:
    """Waits until no other program works under this lock."""
    from huggingface_hub.utils import WeakFileLock

    with contextlib.ExitStack() as stack:
        while True:
            check_cancelled()
            try:
                stack.enter_context(WeakFileLock(lock_file, timeout=0.5))
                break
            except TimeoutError:
                continue
        yield
    with contextlib.suppress(OSError):  # Windows keeps it while others wait for it
        lock_file.unlink()


def _download(
    official: OfficialCheckpoint,
    target: Path,
    on_progress: Callable[[int, int], None],
    check_cancelled: Callable[[], None],
) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HTTPError
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    try:
        url = hf_hub_url(official.repo_id, official.filename)
        found = get_hf_file_metadata(url)
    except (HTTPError, OSError) as error:
        raise CheckpointError(_failure(official, target.parent, error)) from error
    total, etag = found.size, found.etag
    if not total or not etag:
        raise CheckpointError(
            f"The hub does not say how large {official.filename} is. {_by_hand(official, target.parent)}"
        )
    partial = target.with_name(f".{target.name}.{re.sub('[^0-9A-Za-z]', '', etag)[:16]}{PARTIAL_SUFFIX}")
    for other in target.parent.glob(f".{target.name}.*{PARTIAL_SUFFIX}"):
        if other != partial:
            other.unlink()  # a part of an older version
    have = partial.stat().st_size if partial.is_file() else 0
    if have > total:
        partial.unlink()
        have = 0
    _check_disk(official, target.parent, total - have)
    logger.info(
        "Downloading %s of %s (%s%s) into %s. Licence of the weights: %s",
        official.filename,
        official.repo_id,
        gigabytes(total),
        f", {gigabytes(have)} of it are here" if have else "",
        target.parent,
        WEIGHTS_LICENSE_URL,
    )
    on_progress(have, total)
    with partial.open("ab") as file:
        meter = _Meter(file, lambda size: on_progress(size, total), check_cancelled)
        try:
            http_get(url, meter, resume_size=have, headers=build_hf_headers(), expected_size=total)
        except (HTTPError, OSError) as error:
            raise CheckpointError(_failure(official, target.parent, error)) from error
    # Large files are named by their SHA-256 there: parts of two downloads must fit together.
    if re.fullmatch("[0-9a-f]{64}", etag) and _sha256(partial, check_cancelled) != etag:
        partial.unlink()
        raise CheckpointError(f"{official.filename} came damaged from the hub and was thrown away. Try again.")
    os.replace(partial, target)


def gigabytes(num_bytes: int) -> str:
    """A size for people, in the unit that disks are sold by."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 5e7 else f"{num_bytes / 1e6:.1f} MB"


def _check_disk(official: OfficialCheckpoint, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed + _SPARE_BYTES > free:
        raise CheckpointError(
            f"{official.filename} needs {gigabytes(needed)} more on the disk of {folder}, but only {gigabytes(free)} "
            f"are free there. Free some, or put the file elsewhere: {_by_hand(official, folder)}"
        )


def _sha256(path: Path, check_cancelled: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            check_cancelled()
            digest.update(block)
    return digest.hexdigest()


def _failure(official: OfficialCheckpoint, folder: Path, error: Exception) -> str:
    """Why the download failed, and what to do."""
    refused = refusal(error, official.repo_id, None, "log in with `hf auth login` or set HF_TOKEN")
    if refused is None:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        refused = (
            f"{official.repo_id} can't be downloaded now ({reason}). Run again later: it goes on where it stopped."
        )
    return f"{refused} Or by hand: {_by_hand(official, folder)}"


def _by_hand(official: OfficialCheckpoint, folder: Path) -> str:
    return (
        f"put {official.filename} from https://huggingface.co/{official.repo_id} into {folder} "
        f"(licence of the weights: {WEIGHTS_LICENSE_URL})."
    )
