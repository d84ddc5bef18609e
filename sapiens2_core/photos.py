"""Reading photos: finding them, knowing early which cannot be read, opening them upright."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps
from torch import Tensor

#: What counts as a photo in a folder. A file that is named itself is opened whatever its suffix.
PHOTO_SUFFIXES = (
    *(".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff"),
    *(".gif", ".jp2", ".ppm", ".pgm", ".tga", ".avif", ".heic", ".heif"),
)

#: Seconds without an answer after which a picture's address is given up.
_DOWNLOAD_TIMEOUT = 30

#: What Pillow raises for files that are no pictures, are cut off, or are damaged.
_UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


def find_photos(path: Path) -> list[Path]:
    """``path`` itself, or the photos of a folder in order of their names; hidden files are left out.

    Raises:
        FileNotFoundError: there is nothing at ``path``, or no photo in the folder.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no photo or folder {path}.")
    if not path.is_dir():
        return [path]
    photos = [file for file in sorted(path.iterdir()) if file.suffix.lower() in PHOTO_SUFFIXES]
    photos = [file for file in photos if not file.name.startswith(".")]
    if not photos:
        raise FileNotFoundError(f"The folder {path} has no photos in it (looked for {', '.join(PHOTO_SUFFIXES)}).")
    return photos


def _unreadable(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path} can't be read as a photo ({error}). Convert it, or take it out.")


def check_photos(photos: Iterable[Path]) -> None:
    """Decodes every photo, JPEGs at an eighth of their size, which is quick.

    Raises:
        ValueError: photos can't be read; the message names them all.
    """
    bad = []
    for path in photos:
        try:
            with Image.open(path) as image:
                image.draft("RGB", (max(image.width // 8, 1), max(image.height // 8, 1)))
                image.load()
        except _UNREADABLE as error:
            bad.append(f"{path.name} ({error})")
    if bad:
        raise ValueError(f"Can't be read as photos: {', '.join(bad)}. Convert them, or take them out.")


def photo_size(path: Path) -> tuple[int, int]:
    """(height, width) of a photo that stands upright, from its header."""
    with Image.open(path) as image:
        # Orientations 5 to 8 lie on their side.
        return image.size if image.getexif().get(ExifTags.Base.Orientation, 1) > 4 else image.size[::-1]


def _rgb(image: Image.Image) -> np.ndarray:
    """8-bit RGB pixels (H, W, 3); alpha is dropped."""
    if image.mode == "F":
        raise ValueError("floating-point pixels, whose white is unknown")
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow would clamp to 255
        grey = (np.asarray(image).astype(np.float32) / 257).round().clip(0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    return np.array(image.convert("RGB"))


def open_photo(path: Path) -> Tensor:
    """A photo as (3, H, W) uint8, turned upright as its EXIF orientation says.

    Raises:
        ValueError: it can't be read; the message names it.
    """
    try:
        with Image.open(path) as image:
            pixels = _rgb(ImageOps.exif_transpose(image))
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    return torch.from_numpy(pixels).movedim(-1, 0)


def load_image(image: str | Path | Image.Image) -> Image.Image:
    """A picture as 8-bit RGB, turned upright as its EXIF orientation says.

    Args:
        image: a file, an http or https address, or an open picture.

    Raises:
        ValueError: it can't be had or read; the message names it.
    """
    source = image
    try:
        if isinstance(image, str) and image.startswith(("http://", "https://")):
            request = Request(image, headers={"User-Agent": "sapiens2"})  # some sites refuse Python's own name
            with urlopen(request, timeout=_DOWNLOAD_TIMEOUT) as response:
                image = io.BytesIO(response.read())
        if isinstance(image, Image.Image):
            return Image.fromarray(_rgb(ImageOps.exif_transpose(image)))
        with Image.open(image) as opened:
            return Image.fromarray(_rgb(ImageOps.exif_transpose(opened)))
    except _UNREADABLE as error:
        raise ValueError(f"{source} can't be loaded as a picture ({error}).") from error


def result_names(photos: Sequence[Path]) -> list[str]:
    """A name for each photo's results: its stem, or its whole name where two photos would share one.

    Names that differ in capitals only are one on Windows and macOS; a number tells those of them apart that even
    their endings don't.
    """
    stems = [photo.stem.casefold() for photo in photos]
    names, used = [], set()
    for photo, stem in zip(photos, stems, strict=True):
        name = wanted = photo.name if stems.count(stem) > 1 else photo.stem
        number = 1
        while name.casefold() in used:
            number += 1
            name = f"{wanted}_{number}"
        used.add(name.casefold())
        names.append(name)
    return names
