"""What opening a run does, in this order: `sources` finds objects of a store elsewhere (`discovery` finds files),
`ingesting` has what is new read, `contents` puts what the store then holds in order, `deriving` attributes time, and
`catalog` writes the catalogue.
"""
