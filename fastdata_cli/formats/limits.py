"""How a container says, before anything is written, that images are too large for it."""

from __future__ import annotations

from fastdata_cli.errors import UsageError


def require_fit(
    images: int, each: int, most: int, what: str, *, flag: str = "", otherwise: str = ""
) -> None:
    """Refuse what is larger than a container holds, naming what fits.

    Args:
        images: how many lie together.
        each: bytes of one.
        most: bytes that the container holds in one piece.
        what: the container and the piece, as in "Blosc takes".
        flag: option that says how many lie together.
        otherwise: another way out.

    Raises:
        UsageError: they are larger.
    """
    if images * each <= most:
        return
    fitting = most // each
    hints = [f"{flag} {fitting} or less" if fitting and flag else "smaller images, by --size"]
    raise UsageError(
        f"{images:,} image{'s' if images > 1 else ''} of this size are {images * each:,} bytes, "
        f"and {what} {most:,}",
        hint=", or ".join([*hints, *([otherwise] if otherwise else [])]),
        expected=most,
        found=images * each,
    )
