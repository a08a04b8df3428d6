"""One rule file: YAML with lines (`document`), parsed (`parsing`) into a `model.Rule`, its message templates,
units and SQL texts, and the page that `rules show` prints.
"""
