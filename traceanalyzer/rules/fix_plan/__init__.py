"""In which order findings are best fixed, and what each fix adds to those before it.

`plan_context` is what plans are worked out on, `fix_order` orders the fixes of one scope, `ordering` those of every
scope, with what only matters together, or once these are made.
"""
