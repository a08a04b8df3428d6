"""Renderers of blocks, one module each with a function `render(sections, stream)`; `report/formats.py` lists them."""
