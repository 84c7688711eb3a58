"""A kernel at all its levels on one page, linked: what `dsl inspect` writes.

rows.py     rows of each level with the operations and places that they come from
counts.py   what the emulator counts of the code that the page shows
kernel.py   all that the page shows of a kernel, as data
page.py     the page: page.html, with the data in it
"""
