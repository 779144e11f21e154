"""Film strips of rollouts, from rendered frames."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from coda_jax.evaluation.metrics import atomic_write


class MissingExtraError(ImportError):
    """An optional package is absent; the message names the extra of setup.py that brings it."""


_BACKGROUND, _INK, _MUTED = (255, 255, 255), (31, 41, 55), (107, 114, 128)
_GOOD, _BAD = (21, 128, 61), (185, 28, 28)
_GAP = 4
_CAPTION = 18
_TITLE = 22


def pick_events(names: Sequence[str], frames: int = 7) -> np.ndarray:
    """Indices of at most ``frames`` control steps: the first and the last, those where another name begins, the earliest first, and from
    the middle of the widest gaps as many as are left.

    Args:
      names: of what each control step belongs to (failures.phase_reached).

    Raises:
      ValueError: no steps, or fewer than two frames.
    """
    if not names or frames < 2:
        raise ValueError(f"a film strip of events needs at least one step and two frames; got {len(names)} and {frames}")
    last = len(names) - 1
    chosen = {0, last}
    for step in range(1, last):
        if names[step] != names[step - 1] and len(chosen) < frames:
            chosen.add(step)
    while len(chosen) < min(frames, len(names)):
        ordered = sorted(chosen)
        width, first = max((b - a, -a) for a, b in itertools.pairwise(ordered))
        chosen.add(-first + width // 2)
    return np.array(sorted(chosen))


def film_strip(frames: np.ndarray, captions: Sequence[str], *, title: str = "", success: bool | None = None) -> Image.Image:
    """One row of frames with a caption under each and a title above.

    Args:
      frames: [f, height, width, 3] uint8. captions: one per frame, e.g. "12 grasp"; cut to the frame's width.
      success: colours the bar over the row green or red; None leaves it grey.

    Raises:
      ValueError: no frames, or not one caption per frame.
    """
    if len(frames) == 0 or len(frames) != len(captions):
        raise ValueError(f"{len(frames)} frames with {len(captions)} captions: a strip needs at least one frame and one caption for each")
    count, height, width, _ = frames.shape
    top = (_TITLE if title else 0) + 4
    strip = Image.new("RGB", (count * width + (count - 1) * _GAP, top + height + _CAPTION), _BACKGROUND)
    draw = ImageDraw.Draw(strip)
    font = ImageFont.load_default(size=12)
    if title:
        draw.text((1, 3), _fit(draw, title, font, strip.width - 2), fill=_INK, font=font)
    colour = _MUTED if success is None else _GOOD if success else _BAD
    draw.rectangle((0, top - 4, strip.width, top - 2), fill=colour)
    for i, (frame, caption) in enumerate(zip(frames, captions, strict=True)):
        left = i * (width + _GAP)
        strip.paste(Image.fromarray(np.asarray(frame, np.uint8)), (left, top))
        last = i == count - 1 and success is not None
        draw.text((left + 2, top + height + 2), _fit(draw, caption, font, width - 4), fill=colour if last else _MUTED, font=font)
    return strip


def png_of(image: Image.Image, small: bool = False) -> bytes:
    """The file of a picture. small: takes longer for fewer bytes."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=small)
    return buffer.getvalue()


def webp_of(images: Sequence[Image.Image], duration_ms: int | list[int], quality: int) -> bytes:
    """The file of an animation that loops. duration_ms: of every image, or of each."""
    buffer = io.BytesIO()
    images[0].save(buffer, "WEBP", save_all=True, append_images=images[1:], duration=duration_ms, loop=0, quality=quality, method=2)
    return buffer.getvalue()


def write_strip(path: Path, strip: Image.Image) -> None:
    """Write a strip as PNG, atomically."""
    atomic_write(path, png_of(strip, small=True))


def write_animation(path: Path, frames: np.ndarray, *, frames_per_s: float = 10.0, quality: int = 80) -> None:
    """Write frames [f, height, width, 3] uint8 as an animated WebP that loops, atomically.

    Raises:
      ValueError: no frames.
    """
    if len(frames) == 0:
        raise ValueError(f"no frames for {path}")
    images = [Image.fromarray(np.asarray(frame, np.uint8)) for frame in frames]
    atomic_write(path, webp_of(images, round(1000 / frames_per_s), quality))


def write_video(path: Path, frames: np.ndarray, *, frames_per_s: int = 10) -> None:
    """Write frames [f, height, width, 3] uint8 as the ending of ``path`` says: .mp4 (H.264), or .webp (``write_animation``); atomically.

    Raises:
      ValueError: no frames, sides that are odd (.mp4), or another ending. MissingExtraError: .mp4 without the extra ``video``.
    """
    if path.suffix == ".webp":
        write_animation(path, frames, frames_per_s=frames_per_s)
        return
    if path.suffix != ".mp4":
        raise ValueError(f"{path} ends with neither .mp4 nor .webp: videos are written as one of them")
    if len(frames) == 0 or frames.shape[1] % 2 or frames.shape[2] % 2:
        raise ValueError(f"frames {frames.shape} for {path}: an .mp4 needs at least one, of even height and width")
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError('an .mp4 needs the extra video: pip install ".[video]", or write a .webp') from error
    half = path.with_name(f".{path.stem}.tmp.mp4")
    size = (frames.shape[2], frames.shape[1])
    writer = imageio_ffmpeg.write_frames(str(half), size, fps=frames_per_s, quality=7, macro_block_size=2, ffmpeg_log_level="error")
    writer.send(None)
    for frame in np.ascontiguousarray(frames, np.uint8):
        writer.send(frame)
    writer.close()
    os.replace(half, path)


def _fit(draw: ImageDraw.ImageDraw, text: str, font, width: int) -> str:
    """The text as one printable line, cut with an ellipsis where it is wider than ``width`` pixels."""
    line = "".join(c if c.isprintable() else " " for c in text[:400])
    if draw.textlength(line, font=font) <= width:
        return line
    while line and draw.textlength(line + "...", font=font) > width:
        line = line[:-1]
    return line + "..."
