"""What people read: reports are made of blocks, which renderers write; what is for programs is written as data.

`diagnosis_blocks` and `screens` make blocks, `renderers` write them, and `formats` lists the formats.
"""
