"""The harness in a kernel: `pi_nb.agent(...)`, the magics, and what a cell shows.

`agent` is the object a user holds, `magics` say the same in cells, `kernel` knows how cells
wait and who can be asked, `display` turns a run into Markdown and text.
"""
