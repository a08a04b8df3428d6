"""What `docs/generate.py` and `docs/build_site.py` write: parts of documents, and a page for each rule and metric.

`parts` writes the parts of documents; `rule_pages` and `metric_pages` write the site's pages; `examples` runs what both
show; `markdown` knows the syntax.
"""
