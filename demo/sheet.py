"""The contact sheet: icons in rows, each above its prompt."""

import textwrap
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

COLUMNS = 8
ICON = 128
MARGIN = 12
CAPTION = 44
WIDTH_CHARACTERS = 22


def contact_sheet(icons: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    """One picture of all (prompt, icon) pairs."""
    rows = -(-len(icons) // COLUMNS)
    cell = (ICON + MARGIN, ICON + CAPTION + MARGIN)
    sheet = Image.new("RGB", (COLUMNS * cell[0] + MARGIN, rows * cell[1] + MARGIN), "#f4f4f2")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=11)
    for index, (prompt, icon) in enumerate(icons):
        x = MARGIN + index % COLUMNS * cell[0]
        y = MARGIN + index // COLUMNS * cell[1]
        sheet.paste(icon.resize((ICON, ICON), Image.Resampling.LANCZOS), (x, y))
        caption = "\n".join(textwrap.wrap(prompt, WIDTH_CHARACTERS))
        draw.multiline_text((x, y + ICON + 4), caption, font=font, fill="#333333", spacing=2)
    return sheet
