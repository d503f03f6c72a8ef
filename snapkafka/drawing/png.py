"""A diagram as PNG, for tools without SVG: drawn by resvg, which needs no browser and no library of the system."""

from __future__ import annotations

from typing import Any, Final

from snapkafka.errors import OutputError
from snapkafka.runtime.extras import require_extra

from .svg import FONT

#: Pixels for each unit of the SVG, along each side: sharp in print and on fine screens.
ZOOM: Final = 2
#: Letters alone, to see whether there is a font for them.
_LETTERS: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
    f'<text x="2" y="15" font-family="{FONT}" font-size="12">cut</text></svg>'
)


def png(svg: str, **more: Any) -> bytes:
    """Draw an SVG on white, twice as large.

    Args:
        more: further arguments of `resvg_py.svg_to_bytes`.

    Raises:
        DependencyMissingError: the extra `png` is not installed.
        OutputError: this machine has no font for its text.
    """
    require_extra("png", "a picture as PNG")
    from resvg_py import svg_to_bytes

    if svg_to_bytes(svg_string=_LETTERS, **more) == svg_to_bytes(
        svg_string=_LETTERS.replace("cut", ""), **more
    ):
        raise OutputError(
            f"no font was found to draw text with ({FONT})",
            hint="install one, such as the package fonts-dejavu; or write a file that ends in .svg",
        )
    return svg_to_bytes(svg_string=svg, background="white", zoom=ZOOM, **more)
