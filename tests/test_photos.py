import functools
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core.photos import check_photos, find_photos, load_image, open_photo, photo_size, result_names


def save(path, mode="RGB", size=(6, 4), **more):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], len(mode)), dtype=np.uint8)
    image = Image.fromarray(pixels.squeeze(-1) if len(mode) == 1 else pixels)
    image.save(path, **more)
    return pixels


def test_folder_gives_its_photos_in_order_of_name(tmp_path):
    for name in ("b.PNG", "a.jpg", ".hidden.jpg", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert [path.name for path in find_photos(tmp_path)] == ["a.jpg", "b.PNG"]


def test_missing_photo_and_empty_folder_are_errors_that_name_them(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg"):
        find_photos(tmp_path / "gone.jpg")
    with pytest.raises(FileNotFoundError, match="no photos"):
        find_photos(tmp_path)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_photo_is_rgb_and_alpha_is_dropped(tmp_path, mode):
    pixels = save(tmp_path / "a.png", mode)
    photo = open_photo(tmp_path / "a.png")
    assert photo.shape == (3, 4, 6)
    assert photo.dtype == torch.uint8
    expected = np.broadcast_to(pixels[..., : 3 if len(mode) > 1 else 1], (4, 6, 3))
    assert np.array_equal(photo.movedim(0, -1).numpy(), expected)


def test_16_bit_grey_keeps_its_range(tmp_path):
    Image.fromarray(np.array([[0, 257, 65535]], dtype=np.uint16)).save(tmp_path / "a.png")
    assert open_photo(tmp_path / "a.png")[2].tolist() == [[0, 1, 255]]


def test_exif_orientation_turns_the_photo_upright(tmp_path):
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90° clockwise to see it upright
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    photo = open_photo(tmp_path / "a.png")
    assert photo.shape == (3, 6, 4)
    assert photo[0, 0, 3] == 255


@pytest.mark.parametrize("damage", ["cut JPEG", "cut PNG", "text", "empty"])
def test_unreadable_photo_is_found_before_work_and_named(tmp_path, damage):
    path = tmp_path / "bad.jpg"
    if damage.startswith("cut"):
        save(path, size=(300, 200), format=damage[4:])
        path.write_bytes(path.read_bytes()[:3000])
    else:
        path.write_text("not a photo" if damage == "text" else "")
    save(tmp_path / "good.png")
    with pytest.raises(ValueError, match=r"Can't be read as photos: bad\.jpg \("):
        check_photos([tmp_path / "good.png", path])
    with pytest.raises(ValueError, match=r"bad\.jpg can't be read as a photo"):
        open_photo(path)


def test_all_unreadable_photos_are_named_at_once(tmp_path):
    for name in ("a.jpg", "c.png"):
        (tmp_path / name).write_text("not a photo")
    save(tmp_path / "b.png")
    with pytest.raises(ValueError, match=r"a\.jpg .*, c\.png"):
        check_photos([tmp_path / name for name in ("a.jpg", "b.png", "c.png")])


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_size_is_that_of_the_upright_photo(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (60, 20)).save(tmp_path / "photo.jpg", exif=exif)
    assert photo_size(tmp_path / "photo.jpg") == tuple(open_photo(tmp_path / "photo.jpg").shape[-2:])


def test_floating_point_photo_is_refused(tmp_path):
    Image.new("F", (4, 4)).save(tmp_path / "photo.tiff")
    with pytest.raises(ValueError, match="floating-point pixels"):
        open_photo(tmp_path / "photo.tiff")


def test_result_names_tell_photos_of_one_stem_apart():
    assert result_names([Path("x/a.jpg"), Path("x/a.png"), Path("x/b.png")]) == ["a.jpg", "a.png", "b"]


def test_result_names_are_different_files_on_every_system():
    photos = [Path(name) for name in ("A.jpg", "a.png", "a.jpg", "a.jpg.png", "B.png")]
    names = result_names(photos)
    assert len({name.casefold() for name in names}) == len(photos)
    assert names[-1] == "B"


@pytest.fixture
def site(tmp_path):
    """Address of a server on this machine that gives the files of a folder."""
    handler = functools.partial(QuietHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_image_is_loaded_from_file_address_and_picture_alike(tmp_path, site):
    image = Image.new("RGB", (20, 10), (255, 0, 0))
    image.paste((0, 0, 255), (0, 0, 5, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    image.save(tmp_path / "turned.png", exif=exif)
    file = tmp_path / "turned.png"
    expected = open_photo(file)
    assert expected.shape == (3, 20, 10)
    for source in (file, str(file), f"{site}/turned.png", Image.open(file)):
        loaded = load_image(source)
        assert (loaded.mode, loaded.size) == ("RGB", (10, 20))
        assert torch.equal(torch.from_numpy(np.array(loaded)).movedim(-1, 0), expected)


def test_image_with_alpha_is_loaded_as_rgb(tmp_path):
    Image.new("RGBA", (4, 3), (10, 20, 30, 0)).save(tmp_path / "clear.png")
    assert load_image(tmp_path / "clear.png").getpixel((0, 0)) == (10, 20, 30)


def test_image_that_is_not_there_or_no_picture_is_named(tmp_path, site):
    (tmp_path / "text.png").write_text("no picture")
    sources = (
        tmp_path / "gone.png",
        f"{site}/gone.png",
        tmp_path / "text.png",
        f"{site}/text.png",
        "http://127.0.0.1:9/",
    )
    for source in sources:
        with pytest.raises(ValueError, match=re.escape(str(source))):
            load_image(source)
