"""The HTML page that `dsl inspect` writes: a kernel at all its levels, with links between the levels.

rows.py     rows of each level, with the operations and places that they come from
counts.py   the emulator's counters of the code on the page
kernel.py   the data of a kernel on the page
page.py     the page: page.html, with the data in it
"""
