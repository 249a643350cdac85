"""Accepted pictures, and their stored form."""

import io

import pytest
from PIL import Image, ImageCms

from libs.media.picture_encoding import FORMATS, NotAPicture, Picture, shrunk, take_in
from tests.support.builders.pictures import RED, bomb, encoded, halves, is_blue, is_red, opened, picture, zipped

MAX_PIXELS = 1_000_000


def taken(data: bytes) -> Picture:
    return take_in(io.BytesIO(data), MAX_PIXELS)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_kept_as_what_it_is(name: str) -> None:
    found = taken(picture(name, 40, 20))
    assert (found.format, found.width, found.height) == (name, 40, 20)
    kept = opened(found.data)
    assert (kept.format, kept.size) == (FORMATS[name].pillow, (40, 20))
    assert is_red(kept.convert("RGB").getpixel((5, 10)))
    assert is_blue(kept.convert("RGB").getpixel((35, 10)))


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *((mode, "png") for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        *((mode, "jpg") for mode in ("L", "RGB", "CMYK")),
        *((mode, "gif") for mode in ("1", "L", "P")),
        *((mode, "webp") for mode in ("RGB", "RGBA")),
    ],
)
def test_every_kind_of_pixels_is_kept_and_made_smaller(mode: str, name: str) -> None:
    found = taken(encoded(Image.new(mode, (40, 20)), name))
    assert found.format == name
    assert opened(shrunk(found.data, name, 10)).size == (10, 5)


@pytest.mark.parametrize("name", ["png", "webp", "gif"])
def test_what_shows_through_goes_on_doing_so(name: str) -> None:
    image = Image.new("RGBA", (40, 20), (*RED, 255))
    image.paste((0, 0, 0, 0), (20, 0, 40, 20))
    found = taken(encoded(image, name))
    for data in (found.data, shrunk(found.data, name, 20)):
        kept = opened(data).convert("RGBA")
        assert [kept.getpixel((x * kept.width // 8, 2))[3] for x in (1, 7)] == [255, 0]  # type: ignore[index]


@pytest.mark.parametrize("name", ["jpg", "png", "webp"])
def test_a_picture_is_turned_as_its_camera_says_and_nothing_says_so_any_more(name: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter to the right: what is left is on top
    exif[0x010F] = "Camera"
    found = taken(encoded(halves(40, 20), name, exif=exif))
    assert (found.width, found.height) == (20, 40)
    kept = opened(found.data)
    assert kept.size == (20, 40)
    assert is_red(kept.getpixel((10, 5)))
    assert is_blue(kept.getpixel((10, 35)))
    assert not kept.getexif()


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_but_the_picture_is_kept(name: str) -> None:
    exif = Image.Exif()
    exif[0x010E] = "SECRET"
    options = {"exif": exif, "xmp": b"<x>SECRET</x>"} if name != "gif" else {}
    if name in ("gif", "jpg"):
        options["comment"] = b"SECRET"
    given = encoded(halves(), name, **options)
    assert b"SECRET" in given
    found = taken(given)
    assert b"SECRET" not in found.data
    assert not {"exif", "xmp", "comment", "icc_profile", "photoshop"} & opened(found.data).info.keys()


def test_colours_are_kept_where_the_profile_that_gave_them_their_meaning_goes() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = profile.replace(b"rXYZ", b"temp").replace(b"bXYZ", b"rXYZ").replace(b"temp", b"bXYZ")
    for name in ("jpg", "png", "webp"):
        kept = opened(taken(encoded(halves(), name, icc_profile=swapped)).data)
        assert "icc_profile" not in kept.info
        assert is_blue(kept.getpixel((5, 10)))  # what is called red there is blue
    broken = encoded(halves(), "png", icc_profile=b"no profile")
    assert is_red(opened(taken(broken).data).getpixel((5, 10)))


def test_of_an_animation_the_first_picture_is_kept() -> None:
    other = Image.new("RGB", (40, 20), (0, 255, 0))
    for name in ("gif", "webp", "png"):
        found = taken(encoded(halves(), name, save_all=True, append_images=[other, other], duration=100))
        kept = opened(found.data)
        assert getattr(kept, "n_frames", 1) == 1
        assert is_red(kept.convert("RGB").getpixel((5, 10)))


def test_of_a_camera_s_several_pictures_the_first_is_kept_as_a_jpg() -> None:
    target = io.BytesIO()
    halves().save(target, "MPO", save_all=True, append_images=[Image.new("RGB", (40, 20), (0, 255, 0))])
    found = taken(target.getvalue())
    assert (found.format, opened(found.data).format) == ("jpg", "JPEG")


def a_script() -> bytes:
    """10,799 pixels wide, which JavaScript reads as the beginning of a comment."""
    return encoded(Image.new("L", (0x2A2F, 1)), "gif") + b"*/=1;alert('SECRET')//"


@pytest.mark.parametrize(
    "data",
    [
        picture("jpg") + zipped("evil.txt", "SECRET"),
        picture("png") + b"Rar!\x1a\x07\x01\0SECRET",
        picture("webp") + b"7z\xbc\xaf\x27\x1cSECRET",
        encoded(halves(), "jpg", comment=b"%PDF-1.7 SECRET"),
        picture("png") + b"<SCRIPT>SECRET</SCRIPT>",
        picture("webp") + b"<?php SECRET ?>",
        encoded(halves(), "jpg", comment=b"<html><body>SECRET"),
        a_script(),
    ],
)
def test_what_is_something_else_as_well_is_refused(data: bytes) -> None:
    with pytest.raises(NotAPicture, match="something else"):
        taken(data)


@pytest.mark.parametrize("name", FORMATS)
def test_what_cameras_put_behind_a_picture_goes(name: str) -> None:
    film = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isomSECRET */="
    kept = taken(picture(name) + film).data
    assert b"SECRET" not in kept


@pytest.mark.parametrize("size", [(20_000, 20_000), (1_001, 1_000)])
def test_a_picture_of_too_many_pixels_is_refused_before_it_is_read(size: tuple[int, int]) -> None:
    data = bomb(*size)
    assert len(data) < 60_000
    with pytest.raises(NotAPicture, match="too many pixels"):
        taken(data)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.95])
def test_a_file_that_was_cut_off_is_refused(name: str, share: float) -> None:
    whole = picture(name, 400, 300) if name != "gif" else encoded(Image.effect_noise((400, 300), 50), name)
    with pytest.raises(NotAPicture):
        taken(whole[: int(len(whole) * share)])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a picture",
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        b"%PDF-1.7",
        encoded(halves(), "png").replace(b"IHDR", b"XXXX"),
    ],
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(NotAPicture):
        taken(data)


@pytest.mark.parametrize("pillow", ["BMP", "TIFF", "ICO", "PPM", "TGA", "PDF", "EPS"])
def test_other_formats_are_refused_though_they_could_be_read(pillow: str) -> None:
    target = io.BytesIO()
    halves(64, 64).save(target, pillow)
    with pytest.raises(NotAPicture, match="jpg, png, webp, gif"):
        taken(target.getvalue())


@pytest.mark.parametrize(
    ("size", "longest", "expected"),
    [
        ((3000, 1500), 800, (800, 400)),
        ((1500, 3000), 150, (75, 150)),
        ((3000, 2), 150, (150, 1)),
        ((100, 50), 150, (100, 50)),
    ],
)
@pytest.mark.parametrize("name", ["jpg", "png"])
def test_a_rendition_keeps_the_ratio_and_never_enlarges(
    name: str, size: tuple[int, int], longest: int, expected: tuple[int, int]
) -> None:
    assert opened(shrunk(picture(name, *size), name, longest)).size == expected
