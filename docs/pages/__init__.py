"""What `docs/generate.py` writes: generated parts of documents, and a page for each rule, metric and table.

`parts` writes the parts of README.md, docs/json.md and docs/glossary.md; `rule_pages` and `metric_pages` write
docs/rules/ and docs/metrics/; `examples` runs what both show; `markdown` knows the syntax.
"""
