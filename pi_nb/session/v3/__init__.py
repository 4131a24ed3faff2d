"""pi's own session files, versions 1 to 3: read as they are, continued in place.

`loading` takes a file in and reports what is odd, `bodies` reads entries that lack
something, `upgrade` makes v3 lines of v1 and v2, `codec` ties them together and writes.
"""
