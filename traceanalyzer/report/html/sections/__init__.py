"""The sections of a page, one module each with a function that returns it or None; `page.SECTIONS` is their order."""
